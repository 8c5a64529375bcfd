"""`outrider health`: asks one process how it is, and says so by its exit status.

For container engines and scripts: `python -m outrider.health` starts without the rest of the
command. Knows nothing of what it asks but its address: HTTP `/health`, or gRPC health. No TLS:
health ports have none.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.settings import EXIT_BAD_SETTINGS, BadSettings
from outrider.supervision.readiness import ask_health

ADDRESS_VARIABLE = "OUTRIDER_HEALTH_ADDRESS"
EXIT_NOT_SERVING = 1
TIMEOUT_S = 3.0

_HTTP = "http://"
_NO_ANSWER = "no answer"


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Asks once and writes one line.

    Args:
        argv: Flags.
        environ: Where the address is looked for that the flags do not name.

    Returns:
        0: serving; 1: not, or no answer; 78: the address cannot be read.
    """
    options = _parser().parse_args(argv)
    address = options.address or environ.get(ADDRESS_VARIABLE, "").strip()
    try:
        problem = ask(address, options.service, options.timeout_s)
    except BadSettings as error:
        sys.stderr.write(f"outrider health: {error}\n")
        return EXIT_BAD_SETTINGS
    print(f"not serving: {problem}" if problem else "serving")
    return EXIT_NOT_SERVING if problem else 0


def ask(address: str, service: str = "", timeout_s: float = TIMEOUT_S) -> str:
    """Asks a process.

    Args:
        address: `http://HOST:PORT`, or `HOST:PORT` for gRPC.
        service: Of the gRPC health service; "": the process as a whole.
        timeout_s: Longest wait for the answer, seconds.

    Returns:
        Why it does not serve; "" where it does.

    Raises:
        BadSettings: The address is neither.
    """
    if not address:
        raise BadSettings(f"name an ADDRESS, or set {ADDRESS_VARIABLE}")
    host, port = _host_and_port(address)
    if address.startswith(_HTTP):
        return asyncio.run(_ask_http(host, port, timeout_s))
    return _ask_grpc(address, service, timeout_s)


async def _ask_http(host: str, port: int, timeout_s: float) -> str:
    try:
        health = await asyncio.wait_for(ask_health(host, port), timeout_s)
    except TimeoutError:
        return _NO_ANSWER
    return "" if health.is_serving else health.reason or _NO_ANSWER


def _ask_grpc(address: str, service: str, timeout_s: float) -> str:
    request = health_pb2.HealthCheckRequest(service=service)
    # No proxy of the environment stands between a process and its own pod.
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
        except grpc.RpcError as error:
            unknown = error.code() is grpc.StatusCode.NOT_FOUND
            return f"it knows no service {service!r}" if unknown else _NO_ANSWER
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return "" if status == "SERVING" else str(status)


def _host_and_port(address: str) -> tuple[str, int]:
    text = address if address.startswith(_HTTP) else f"//{address}"
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port or parts.path not in ("", "/", "/health"):
        raise BadSettings(f"{address!r} must be HOST:PORT (gRPC) or http://HOST:PORT (/health)")
    return host, port


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider health", description="Ask one process how it is; status 0: it serves."
    )
    parser.add_argument(
        "address",
        nargs="?",
        default="",
        help=f"HOST:PORT (gRPC health) or http://HOST:PORT (/health) [{ADDRESS_VARIABLE}]",
    )
    parser.add_argument(
        "--service", default="", help='of gRPC health; "live" or "ready" for workers'
    )
    parser.add_argument("--timeout-s", type=float, default=TIMEOUT_S, help="(default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
