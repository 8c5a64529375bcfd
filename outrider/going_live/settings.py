"""What `outrider check` is asked: where the service is, who asks, and how much. Starts nothing."""

import argparse
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.client import Tls
from outrider.evaluation.options import above_zero, positive, words
from outrider.going_live.figures import Budget
from outrider.settings import LOOPBACK_HOSTS, BadSettings

GRPC_PORT = 50051
HTTP_PORT = 8080
NO_HTTP = "none"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is checked, and how hard.

    Args:
        address: host:port of the gRPC listener.
        http_url: Root of the HTTP listener; "": it is not looked at.
        is_http_guess: True: nobody has named it.
        api_key: "": none.
        tls: Certificates; None: no TLS.
        model: Name that the model should have; "": any.
        rate: Requests a second of the load.
        seconds: How long the load lasts.
        prompts: How many are compared.
        max_new_tokens: Of each answer.
        differing: Answers that may differ.
        concurrency: Streams at a time while answers are compared.
        budget: Of latencies under the load.
        pages: Addresses of metrics pages.
        metrics_token: Their bearer token; "": none.
        logs: Files.
    """

    address: str
    http_url: str
    is_http_guess: bool
    api_key: str
    tls: Tls | None
    model: str
    rate: float
    seconds: float
    prompts: int
    max_new_tokens: int
    differing: int
    concurrency: int
    budget: Budget
    pages: tuple[str, ...]
    metrics_token: str
    logs: tuple[Path, ...]

    @property
    def is_public(self) -> bool:
        """True where the service is asked beyond this machine."""
        return self.address.rpartition(":")[0].strip("[]") not in LOOPBACK_HOSTS

    def ssl_context(self) -> ssl.SSLContext | None:
        """For https; None: the system's.

        Raises:
            OSError: A file cannot be read.
        """
        if self.tls is None:
            return None
        context = ssl.create_default_context(cafile=self.tls.ca)
        if self.tls.cert is not None:
            context.load_cert_chain(self.tls.cert, self.tls.key)
        return context


def parse_options(argv: Sequence[str] | None, about: str) -> tuple[CheckOptions, Path | None]:
    """Reads the flags; also says where to write JSON to.

    Raises:
        BadSettings: Flags do not fit together.
        SystemExit: A flag is unknown or its value is none.
    """
    args = _parser(about).parse_args(argv)
    if (args.tls_cert is None) != (args.tls_key is None) or (args.tls_cert and not args.tls_ca):
        raise BadSettings("--tls-cert and --tls-key go together, and need --tls-ca")
    tls = Tls(args.tls_ca, args.tls_cert, args.tls_key) if args.tls_ca else None
    address = args.target if _has_port(args.target) else f"{args.target}:{GRPC_PORT}"
    host = address.rpartition(":")[0]
    scheme = "https" if tls else "http"
    http_url = args.http or f"{scheme}://{host}:{HTTP_PORT}"
    try:
        token = args.metrics_token_file.read_text().strip() if args.metrics_token_file else ""
    except OSError as error:
        raise BadSettings(f"--metrics-token-file: {error}") from error
    options = CheckOptions(
        address=address,
        http_url="" if http_url == NO_HTTP else http_url,
        is_http_guess=not args.http,
        api_key=args.key,
        tls=tls,
        model=args.model,
        rate=args.rate,
        seconds=args.seconds,
        prompts=args.prompts,
        max_new_tokens=args.max_new_tokens,
        differing=args.differing,
        concurrency=args.concurrency,
        budget=Budget(args.max_first_ms, args.max_last_ms),
        pages=tuple(_page(one) for one in args.metrics),
        metrics_token=token,
        logs=tuple(Path(one) for one in args.logs),
    )
    return options, args.json


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="outrider check", description=about)
    option = parser.add_argument
    option("--target", default="127.0.0.1", help=f"HOST[:PORT] of gRPC; port {GRPC_PORT}")
    option("--http", default="", help=f"root of HTTP, or none (default: HOST:{HTTP_PORT})")
    key = os.environ.get("OUTRIDER_API_KEY", "")
    option("--key", default=key, help="API key (default: OUTRIDER_API_KEY)")
    option("--tls-ca", type=Path, help="roots to trust, PEM: the service speaks TLS")
    option("--tls-cert", type=Path, help="a certificate of your own")
    option("--tls-key", type=Path, help="its key")
    option("--model", default="", help="name that the served model must have")
    option("--rate", type=above_zero, default=1.0, help="requests a second of the load")
    option("--seconds", type=above_zero, default=30.0, help="how long the load lasts")
    option("--prompts", type=positive, default=20, help="prompts whose answers are compared")
    option("--max-new-tokens", type=positive, default=48, help="of each answer")
    option("--differing", type=int, default=0, help="answers that may differ (16-bit near-ties)")
    option("--concurrency", type=positive, default=4, help="streams while answers are compared")
    option("--max-first-ms", type=float, default=0.0, help="largest p99 to the first token")
    option("--max-last-ms", type=float, default=0.0, help="largest p99 to the last token")
    option("--metrics", type=words, default=(), help="metrics pages: HOST:PORT or URL, commas")
    option("--metrics-token-file", type=Path, help="their bearer token")
    option("--logs", type=words, default=(), help="log files of the services, with commas")
    option("--json", type=Path, help="file to write all of it to")
    return parser


def _has_port(target: str) -> bool:
    return target.rpartition(":")[2].isdigit() and (
        target.count(":") == 1 or (target.startswith("[") and "]:" in target)
    )


def _page(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    return url if url.partition("://")[2].count("/") else f"{url}/metrics"
