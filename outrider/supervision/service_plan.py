"""Which processes serve a model on one machine, with which flags. Starts nothing.

What the environment says about a service (OUTRIDER_DRAFT_..., OUTRIDER_VERIFY_...) is left to it;
only what several of them must agree on is settled here.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.settings import BadSettings
from outrider.supervision.child import ChildSpec

DRAFT_GRPC_PORT = 50052
DRAFT_METRICS_PORT = 9101
VERIFY_METRICS_PORT = 9102
PROBE_PORT = 8081
PORT_STRIDE = 100  # between the preferred ports of workers of one kind
GATEWAY_STOP_TIMEOUT_S = 30.0  # its running requests get 20
WORKER_STOP_TIMEOUT_S = 10.0

AUTO_HEAD = "auto"  # the one that comes with the embedded model, where that is served
NO_HEAD = "none"

FreePort = Callable[[int, frozenset[int]], int]


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What `outrider up` was asked for.

    Args:
        model: Folder of the target.
        grpc_port: Public gRPC port.
        http_port: Public HTTP port.
        dtype: Of the target; "" leaves it to the verify worker.
        draft_method: "" leaves it to the draft worker.
        head: Folder of a draft head made for the target; None: none.
        draft_model: Folder of a draft model with the target's tokenizer; None: none.
        draft_workers: How many draft workers, at least 1.
        verify_workers: How many verify workers, each with the whole target, at least 1.
        probe_port: Of the gateway's plain /health, where its HTTP has TLS; 0: none.
    """

    model: Path
    grpc_port: int = 50051
    http_port: int = 8080
    dtype: str = ""
    draft_method: str = ""
    head: Path | None = None
    draft_model: Path | None = None
    draft_workers: int = 1
    verify_workers: int = 1
    probe_port: int = 0


class _Ports:
    """Hands out ports, each one once.

    Args:
        environ: A port that it sets is kept, for the first of its kind.
        free_port: Gives the preferred port, or another one where that is taken.
        taken: Are not handed out.
    """

    def __init__(self, environ: Mapping[str, str], free_port: FreePort, taken: set[int]) -> None:
        self._environ, self._free_port, self._taken = environ, free_port, taken

    def take(self, variable: str, preferred: int, number: int) -> int:
        """The port of the worker with this number, counted from 0.

        Raises:
            BadSettings: The environment names one that is not a number.
        """
        port = _port(variable, self._environ) if number == 0 else None
        if port is None:
            port = self._free_port(preferred + PORT_STRIDE * number, frozenset(self._taken))
        self._taken.add(port)
        return port


def plan_services(
    options: ServiceOptions,
    verify_endpoints: Sequence[str],
    environ: Mapping[str, str],
    free_port: FreePort,
) -> list[ChildSpec]:
    """The processes in the order they are stopped: gateway, draft workers, verify workers.

    Args:
        options: What was asked for.
        verify_endpoints: ZeroMQ endpoint of each verify worker.
        environ: A port that it sets is kept, for the first worker of its kind.
        free_port: Gives the preferred port, or another one where that is taken.

    Raises:
        BadSettings: A port in the environment is not a number.
    """
    taken = {options.grpc_port, options.http_port, options.probe_port}
    ports = _Ports(environ, free_port, taken)
    host = environ.get("OUTRIDER_DRAFT_GRPC_HOST", "").strip() or "127.0.0.1"
    drafts = [
        _draft_flags(options, host, verify_endpoints, ports, number)
        for number in range(options.draft_workers)
    ]
    verifies = [
        _verify_flags(options, endpoint, ports, number)
        for number, endpoint in enumerate(verify_endpoints)
    ]
    gateway = {
        "--model": str(options.model),
        "--draft-addresses": ",".join(
            f"{_bracketed(host)}:{flags['--grpc-port']}" for flags in drafts
        ),
        "--grpc-port": str(options.grpc_port),
        "--http-port": str(options.http_port),
    }
    if options.probe_port:
        gateway["--probe-port"] = str(options.probe_port)
    return [
        _spec("gateway", "gateway", gateway, GATEWAY_STOP_TIMEOUT_S),
        *_workers("draft", "draft_service", drafts),
        *_workers("verify", "verify_service", verifies),
    ]


def choose_probe_port(
    options: ServiceOptions, environ: Mapping[str, str], free_port: FreePort
) -> int:
    """Where to ask whether a gateway with TLS serves, without a certificate; 0: no TLS.

    Raises:
        BadSettings: The port in the environment is not a number.
    """
    if not environ.get("OUTRIDER_GATEWAY_TLS_CERT", "").strip():
        return 0
    ports = _Ports(environ, free_port, {options.grpc_port, options.http_port})
    return ports.take("OUTRIDER_GATEWAY_PROBE_PORT", PROBE_PORT, 0)


def _draft_flags(
    options: ServiceOptions, host: str, verify_endpoints: Sequence[str], ports: _Ports, number: int
) -> dict[str, str]:
    flags = {
        "--verify-endpoints": ",".join(verify_endpoints),
        "--grpc-host": host,
        "--grpc-port": str(ports.take("OUTRIDER_DRAFT_GRPC_PORT", DRAFT_GRPC_PORT, number)),
        "--metrics-port": str(
            ports.take("OUTRIDER_DRAFT_METRICS_PORT", DRAFT_METRICS_PORT, number)
        ),
    }
    if options.draft_method:
        flags["--default-method"] = options.draft_method
    if options.head is not None:
        flags |= {"--head": str(options.head), "--target": str(options.model)}
    if options.draft_model is not None:
        flags |= {"--draft-model": str(options.draft_model), "--target": str(options.model)}
    return flags


def _verify_flags(
    options: ServiceOptions, endpoint: str, ports: _Ports, number: int
) -> dict[str, str]:
    metrics_port = ports.take("OUTRIDER_VERIFY_METRICS_PORT", VERIFY_METRICS_PORT, number)
    flags = {
        "--model": str(options.model),
        "--endpoint": endpoint,
        "--metrics-port": str(metrics_port),
    }
    if options.dtype:
        flags["--dtype"] = options.dtype
    return flags


def _workers(kind: str, module: str, flags: Sequence[Mapping[str, str]]) -> list[ChildSpec]:
    """The first of a kind bears its name, the others a number as well."""
    return [
        _spec(f"{kind}-{number}" if number > 1 else kind, module, one, WORKER_STOP_TIMEOUT_S)
        for number, one in enumerate(flags, start=1)
    ]


def _spec(name: str, module: str, flags: Mapping[str, str], stop_timeout_s: float) -> ChildSpec:
    words = [word for flag in flags.items() for word in flag]
    return ChildSpec(name, (sys.executable, "-m", module, *words), stop_timeout_s)


def _port(name: str, environ: Mapping[str, str]) -> int | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit():
        raise BadSettings(f"{name}: must be a port number (got {text!r})")
    return int(text)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
