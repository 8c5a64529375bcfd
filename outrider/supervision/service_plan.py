"""Which processes serve a model on one machine, with which flags. Starts nothing.

What the environment says about a service (OUTRIDER_DRAFT_..., OUTRIDER_VERIFY_...) is left to it;
only what several of them must agree on is settled here.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from outrider.settings import BadSettings
from outrider.supervision.child import ChildSpec

DRAFT_GRPC_PORT = 50052
DRAFT_METRICS_PORT = 9101
VERIFY_METRICS_PORT = 9102
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
    """

    model: Path
    grpc_port: int = 50051
    http_port: int = 8080
    dtype: str = ""
    draft_method: str = ""
    head: Path | None = None
    draft_model: Path | None = None


def plan_services(
    options: ServiceOptions,
    verify_endpoint: str,
    environ: Mapping[str, str],
    free_port: FreePort,
) -> list[ChildSpec]:
    """The three processes in the order they are stopped: gateway, draft, verify.

    Args:
        options: What was asked for.
        verify_endpoint: ZeroMQ endpoint between the workers.
        environ: A port that it sets is kept.
        free_port: Gives the preferred port, or another one where that is taken.

    Raises:
        BadSettings: A port in the environment is not a number.
    """
    taken = frozenset({options.grpc_port, options.http_port})
    draft_host = environ.get("OUTRIDER_DRAFT_GRPC_HOST", "").strip() or "127.0.0.1"
    draft_port = _port("OUTRIDER_DRAFT_GRPC_PORT", environ) or free_port(DRAFT_GRPC_PORT, taken)
    taken |= {draft_port}
    draft_flags = {
        "--verify-endpoints": verify_endpoint,
        "--grpc-host": draft_host,
        "--grpc-port": str(draft_port),
    }
    draft_flags |= _metrics_flag("OUTRIDER_DRAFT", DRAFT_METRICS_PORT, environ, taken, free_port)
    verify_flags = {"--model": str(options.model), "--endpoint": verify_endpoint}
    verify_flags |= _metrics_flag("OUTRIDER_VERIFY", VERIFY_METRICS_PORT, environ, taken, free_port)
    if options.dtype:
        verify_flags["--dtype"] = options.dtype
    if options.draft_method:
        draft_flags["--default-method"] = options.draft_method
    if options.head is not None:
        draft_flags |= {"--head": str(options.head), "--target": str(options.model)}
    if options.draft_model is not None:
        draft_flags |= {"--draft-model": str(options.draft_model), "--target": str(options.model)}
    gateway_flags = {
        "--model": str(options.model),
        "--draft-address": f"{_bracketed(draft_host)}:{draft_port}",
        "--grpc-port": str(options.grpc_port),
        "--http-port": str(options.http_port),
    }
    return [
        _spec("gateway", "gateway", gateway_flags, GATEWAY_STOP_TIMEOUT_S),
        _spec("draft", "draft_service", draft_flags, WORKER_STOP_TIMEOUT_S),
        _spec("verify", "verify_service", verify_flags, WORKER_STOP_TIMEOUT_S),
    ]


def _spec(name: str, module: str, flags: Mapping[str, str], stop_timeout_s: float) -> ChildSpec:
    words = [word for flag in flags.items() for word in flag]
    return ChildSpec(name, (sys.executable, "-m", module, *words), stop_timeout_s)


def _metrics_flag(
    prefix: str,
    preferred: int,
    environ: Mapping[str, str],
    taken: frozenset[int],
    free_port: FreePort,
) -> dict[str, str]:
    if _port(f"{prefix}_METRICS_PORT", environ) is not None:
        return {}
    return {"--metrics-port": str(free_port(preferred, taken))}


def _port(name: str, environ: Mapping[str, str]) -> int | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit():
        raise BadSettings(f"{name}: must be a port number (got {text!r})")
    return int(text)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
