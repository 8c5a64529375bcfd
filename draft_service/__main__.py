"""Runs a draft worker: `python -m draft_service --verify-endpoints ...`. The composition root."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import grpc
import zmq

from draft_service.engine import DraftEngine, TreeLimits
from draft_service.methods import Methods, make_methods
from draft_service.pulse import Pulse
from draft_service.servicer import DraftingServicer
from draft_service.settings import DraftSettings
from draft_service.streams import Streams
from draft_service.verify_discovery import keep_finding
from draft_service.worker import DraftWorker
from outrider.canary import UselessHead
from outrider.discovery import Discovery
from outrider.pem_files import BadTlsFiles
from outrider.protocol import messages as m
from outrider.protocol.zmq_channel import UnsafeEndpoint, ZmqDraftChannel, load_server_key
from outrider.reloading import Reloadable, Reloader
from outrider.settings import BadSettings, exit_for_bad_settings, load_settings_or_exit
from outrider.supervised import stop_event
from outrider.telemetry.logging import setup_logging
from outrider.telemetry.metrics import DraftMetrics
from outrider.telemetry.tracing import setup_tracing, shutdown_tracing
from outrider.tls import Tls
from outrider.v1 import drafting_pb2_grpc
from outrider.worker_health import DEAD_AFTER_S

MAX_MESSAGE_BYTES = 16 * 2**20
WORKER_CHECK_S = 1.0

logger = logging.getLogger("draft_service")


def main(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Starts the worker and runs it until it is told to stop.

    Raises:
        SystemExit: A setting is bad (78), or the worker's thread died (1).
    """
    settings = load_settings_or_exit(DraftSettings, argv, environ)
    setup_logging("draft", settings.log_level, log_format=settings.log_format)
    setup_tracing("outrider-draft", environ)
    try:
        is_clean = asyncio.run(_serve(settings, environ))
    except UselessHead as error:
        exit_for_bad_settings(settings.program, f"--head {settings.head}: {error}")
    except (BadSettings, BadTlsFiles, UnsafeEndpoint) as error:
        exit_for_bad_settings(settings.program, str(error))
    finally:
        shutdown_tracing()
    logger.info("stopped")
    if not is_clean:
        raise SystemExit(1)


async def _serve(settings: DraftSettings, environ: Mapping[str, str]) -> bool:
    """Serves until told to stop; False where the worker's thread died."""
    stopping = stop_event(environ)
    metrics = DraftMetrics()
    settings.serve_metrics(metrics.registry)
    with settings.serve_health() as health:
        files = settings.tls_files()
        tls = Tls(files) if files is not None else None
        streams = Streams(asyncio.get_running_loop())
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        methods = make_methods(settings, metrics)
        worker = _worker(settings, context, metrics, streams, methods)
        server = _server(settings, DraftingServicer(worker, streams, methods), tls)
        worker.start()
        await server.start()
        pulse = Pulse(DEAD_AFTER_S)
        health.follow(
            lambda: worker.is_live and pulse.is_live,
            lambda: worker.takes_sessions and not methods.canary.is_pending,
        )
        tasks = [
            asyncio.create_task(methods.canary.run(streams, worker)),
            asyncio.create_task(keep_finding(Discovery(settings.verify_sources), worker.follow)),
            asyncio.create_task(_reloader(tls).watch()),
            asyncio.create_task(pulse.beat()),
        ]
        with_tls = ", with TLS" if tls is not None else ""
        logger.info("ready: gRPC on %s:%d%s", settings.grpc_host, settings.grpc_port, with_tls)
        while not stopping.is_set() and worker.is_alive and not any(map(_has_failed, tasks)):
            await _wait(stopping, WORKER_CHECK_S)
        health.drain()
        is_clean = worker.is_alive
        if not is_clean:
            streams.fail_all()
        await server.stop(settings.drain_timeout_s if is_clean else 1.0)
        await _end(tasks)
        worker.stop()
        context.term()
    for task in filter(_has_failed, tasks):
        task.result()  # raises
    return is_clean


async def _end(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _reloader(tls: Tls | None) -> Reloader:
    parts = [Reloadable("certificates", tls.paths, tls.reload)] if tls is not None else []
    return Reloader(parts)


def _has_failed(task: "asyncio.Task[None]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


def _worker(
    settings: DraftSettings,
    context: "zmq.Context[zmq.Socket[bytes]]",
    metrics: DraftMetrics,
    streams: Streams,
    methods: Methods,
) -> DraftWorker:
    keys = settings.curve_keys()
    if keys is not None:
        load_server_key(keys.peers)  # each connection does so; here it stops the start
    layout = methods.layout
    engine = DraftEngine(
        hello=m.Hello(
            boot_id=os.urandom(m.ID_BYTES),
            tokenizer_fingerprint=methods.built_for.tokenizer_fingerprint,
            vocab_size=methods.built_for.vocab_size,
            feature_layers=layout.feature_layers if layout is not None else (),
        ),
        verify_timeout_s=settings.verify_timeout_s,
        drafters=methods.drafters,
        limits=TreeLimits(
            settings.max_nodes, settings.max_depth, settings.parallel_degree, settings.full_trees
        ),
        failover_timeout_s=settings.failover_timeout_s,
        layout=layout,
    )
    open_channel = partial(ZmqDraftChannel, context, keys=keys)
    return DraftWorker(engine, methods.drafters, context, open_channel, metrics, streams.deliver)


def _server(
    settings: DraftSettings, servicer: DraftingServicer, tls: Tls | None
) -> grpc.aio.Server:
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.so_reuseport", 0),
        )
    )
    drafting_pb2_grpc.add_DraftingServiceServicer_to_server(servicer, server)
    host = f"[{settings.grpc_host}]" if ":" in settings.grpc_host else settings.grpc_host
    address = f"{host}:{settings.grpc_port}"
    try:
        if tls is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, tls.grpc_credentials())
    except RuntimeError as error:
        raise BadSettings(f"--grpc-port {settings.grpc_port} cannot be bound: {error}") from error
    return server


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_s)


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
