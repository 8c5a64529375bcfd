"""Runs the gateway: `python -m gateway --model FOLDER`. The composition root, and nothing else."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from gateway.admission import Admission
from gateway.draft_client import DraftClient
from gateway.draft_tls import DraftTls
from gateway.draft_workers import DraftWorkers
from gateway.gate import Gate
from gateway.generation import Generation, GenerationLimits
from gateway.guard import Guard
from gateway.http_api import create_app
from gateway.http_calls import HttpCalls
from gateway.listeners import GrpcLimits, GrpcListener, HttpListener, PortTaken
from gateway.placing import Placing
from gateway.playground.routes import add_playground
from gateway.probes import create_probe_app
from gateway.readiness import Readiness
from gateway.requests import RequestLimits
from gateway.servicer import GenerationServicer
from gateway.settings import GatewaySettings
from gateway.tokenization import BadModelFolder, PromptTokenizer
from outrider.api_keys import Access
from outrider.discovery import Discovery
from outrider.pem_files import BadTlsFiles
from outrider.reloading import Reloadable, Reloader
from outrider.settings import BadSettings, exit_for_bad_settings, load_settings_or_exit
from outrider.supervised import stop_event
from outrider.telemetry.logging import setup_logging
from outrider.telemetry.metrics import GatewayMetrics
from outrider.telemetry.tracing import setup_tracing, shutdown_tracing
from outrider.tls import Tls

LINGER_S = 2.0  # at the end of a drain, for answers that are on their way out

_logger = logging.getLogger("gateway")


def main(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Starts the gateway and runs it until it is told to stop.

    Args:
        argv: Flags.
        environ: Environment.

    Raises:
        SystemExit: A setting is bad (78).
    """
    settings = load_settings_or_exit(GatewaySettings, argv, environ)
    setup_logging("gateway", settings.log_level, log_format=settings.log_format)
    setup_tracing("outrider-gateway", environ)
    try:
        tokenizer = PromptTokenizer.from_folder(settings.model)
        asyncio.run(serve(settings, tokenizer, environ))
    except (BadModelFolder, BadSettings, BadTlsFiles, PortTaken) as error:
        exit_for_bad_settings(settings.program, str(error))
    finally:
        shutdown_tracing()


async def serve(
    settings: GatewaySettings, tokenizer: PromptTokenizer, environ: Mapping[str, str]
) -> None:
    """Serves until SIGTERM, SIGINT or the supervisor's end, then drains."""
    stopping = stop_event(environ)
    for warning in settings.warnings:
        _logger.warning(warning)
    metrics = GatewayMetrics()
    access = Access(settings.read_keys())
    quotas, usage_file = settings.open_usage()
    guard = Guard(access, metrics, settings.guard_limits(), quotas)
    files = settings.tls_files()
    tls = Tls(files) if files is not None else None
    draft_files = settings.draft_tls_files()
    draft_tls = DraftTls(draft_files) if draft_files is not None else None

    def open_client(address: str) -> DraftClient:
        name = settings.model_name
        return DraftClient(address, tokenizer, settings.worker_timeout_s, name, draft_tls)

    discovery = Discovery(settings.draft_sources)
    async with DraftWorkers(discovery, open_client, metrics) as workers:
        gate = Gate(_admission(settings), metrics)
        placing = Placing(workers, metrics, settings.failover_timeout_s)
        limits = _limits(settings)
        generation = Generation(tokenizer, workers, placing, gate, metrics, limits, guard.charge)
        read_timeout_s = settings.read_timeout_s
        servicer = GenerationServicer(generation, guard, read_timeout_s)
        max_bytes = settings.max_request_bytes
        send_timeout_s = settings.send_timeout_s
        grpc_limits = GrpcLimits(
            max_bytes, send_timeout_s, settings.connection_age_s, settings.max_deadline_s
        )
        grpc_listener = GrpcListener(servicer, settings.reflection, grpc_limits, tls)
        readiness = Readiness(workers, grpc_listener.show_readiness)
        if settings.vllm_engine:
            _add_vllm_engine(grpc_listener, generation, guard, readiness, gate, settings)
        calls = HttpCalls(generation, guard, max_bytes, read_timeout_s, send_timeout_s)
        app = create_app(calls, readiness, metrics)
        if settings.playground:
            add_playground(app)
        http_listener = HttpListener(app, tls, read_timeout_s, send_timeout_s)
        probe_app = create_probe_app(readiness, metrics, settings.probe_readers())
        probe_listener = HttpListener(probe_app)
        await grpc_listener.start(settings.grpc_host, settings.grpc_port)
        await http_listener.start(settings.http_host, settings.http_port)
        if settings.probe_port:
            await probe_listener.start(settings.probe_host, settings.probe_port)
        reloadables = _reloadables(settings, access, tls)
        if draft_tls is not None:
            reloadables.append(_draft_certificates(draft_tls, workers))
        watches = [
            _watch("readiness", readiness.watch(), stopping),
            _watch("draft-workers", workers.watch(), stopping),
            _watch("files", Reloader(reloadables).watch(), stopping),
        ]
        if usage_file is not None:
            watches.append(_watch("usage", usage_file.keep(quotas), stopping))
        _logger.info(
            "ready: gRPC on %s:%d, HTTP on %s:%d%s",
            *(settings.grpc_host, settings.grpc_port, settings.http_host, settings.http_port),
            ", with TLS" if tls is not None else "",
        )
        await stopping.wait()
        await _drain(settings.drain_timeout_s, gate, readiness, [grpc_listener, http_listener])
        await probe_listener.stop(0)
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    _logger.info("stopped")


def _add_vllm_engine(
    listener: GrpcListener,
    generation: Generation,
    guard: Guard,
    readiness: Readiness,
    gate: Gate,
    settings: GatewaySettings,
) -> None:
    try:
        from gateway.vllm_engine.servicer import VllmEngineServicer  # noqa: PLC0415  an extra
        from gateway.vllm_engine.serving import add_vllm_engine  # noqa: PLC0415
    except ImportError:
        text = "--vllm-engine needs smg-grpc-proto: pip install 'outrider[vllm-engine]'"
        raise BadSettings(text) from None
    servicer = VllmEngineServicer(
        generation,
        guard,
        lambda: readiness.reason,
        lambda: gate.counts,
        settings.model,
        settings.read_timeout_s,
    )
    add_vllm_engine(listener, servicer)


def _admission(settings: GatewaySettings) -> Admission:
    return Admission(
        settings.max_running_requests, settings.max_queued_requests, settings.max_queued_bytes
    )


def _limits(settings: GatewaySettings) -> GenerationLimits:
    request = RequestLimits(
        settings.default_max_new_tokens, settings.max_messages, settings.max_prompt_chars
    )
    return GenerationLimits(request, settings.max_deadline_s)


def _reloadables(settings: GatewaySettings, access: Access, tls: Tls | None) -> list[Reloadable]:
    """What may be replaced while serving."""

    def load_keys() -> None:
        try:
            access.replace(settings.read_keys())
        except BadSettings as error:
            raise ValueError(str(error)) from None

    parts = []
    if settings.api_keys is not None:
        parts.append(Reloadable("API keys", (settings.api_keys,), load_keys))
    if tls is not None:
        parts.append(Reloadable("certificates", tls.paths, tls.reload))
    return parts


def _draft_certificates(tls: DraftTls, workers: DraftWorkers) -> Reloadable:
    """The gateway's own towards draft workers: connections are made anew with it."""
    loop = asyncio.get_running_loop()

    def load() -> None:
        tls.reload()
        loop.call_soon_threadsafe(workers.renew)

    return Reloadable("certificates towards draft workers", tls.paths, load)


def _watch(
    name: str, watching: Coroutine[Any, Any, None], stopping: asyncio.Event
) -> "asyncio.Task[None]":
    """Runs beside the listeners; where it ends, so does the process: better started anew."""
    task = asyncio.create_task(watching, name=name)
    task.add_done_callback(lambda _: stopping.set())
    return task


async def _drain(
    timeout_s: float,
    gate: Gate,
    readiness: Readiness,
    listeners: Sequence[GrpcListener | HttpListener],
) -> None:
    """New requests are told to go elsewhere, running and waiting ones get their time."""
    _logger.info("draining for up to %g s", timeout_s)
    gate.close()
    await readiness.drain()
    is_empty = await gate.empty(timeout_s)
    linger_s = LINGER_S if is_empty else 0.0
    await asyncio.gather(*(listener.stop(linger_s) for listener in listeners))


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
