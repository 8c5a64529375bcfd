"""Runs a draft worker: `python -m draft_service --verify-endpoints ...`. The composition root."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import grpc
import zmq

from draft_service.engine import DraftEngine, TreeLimits
from draft_service.methods import Methods, make_methods
from draft_service.servicer import DraftingServicer
from draft_service.settings import DraftSettings
from draft_service.streams import Streams
from draft_service.verify_link import VerifyLink
from draft_service.worker import DraftWorker
from outrider.canary import UselessHead
from outrider.protocol import messages as m
from outrider.protocol.zmq_channel import UnsafeEndpoint, ZmqDraftChannel
from outrider.settings import BadSettings, exit_for_bad_settings, load_settings_or_exit
from outrider.supervised import stop_event
from outrider.telemetry.logging import setup_logging
from outrider.telemetry.metrics import DraftMetrics
from outrider.telemetry.tracing import setup_tracing, shutdown_tracing
from outrider.v1 import drafting_pb2_grpc

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
    except (BadSettings, UnsafeEndpoint) as error:
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
    streams = Streams(asyncio.get_running_loop())
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    methods = make_methods(settings, metrics)
    worker = _worker(settings, context, metrics, streams, methods)
    server = _server(settings, DraftingServicer(worker, streams, methods))
    worker.start()
    await server.start()
    logger.info("ready: gRPC on %s:%d", settings.grpc_host, settings.grpc_port)
    canary = asyncio.create_task(methods.canary.run(streams, worker))
    while not stopping.is_set() and worker.is_alive and not _has_failed(canary):
        await _wait(stopping, WORKER_CHECK_S)
    is_clean = worker.is_alive
    if not is_clean:
        streams.fail_all()
    await server.stop(settings.drain_timeout_s if is_clean else 1.0)
    worker.stop()
    context.term()
    canary.cancel()
    if _has_failed(canary):
        canary.result()  # raises
    return is_clean


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
    layout = methods.layout
    engine = DraftEngine(
        hello=m.Hello(
            boot_id=os.urandom(m.ID_BYTES),
            tokenizer_fingerprint=methods.built_for.tokenizer_fingerprint,
            vocab_size=methods.built_for.vocab_size,
            feature_layers=layout.feature_layers if layout is not None else (),
        ),
        links=[VerifyLink(settings.verify_timeout_s) for _ in settings.endpoints],
        drafters=methods.drafters,
        limits=TreeLimits(
            settings.max_nodes, settings.max_depth, settings.parallel_degree, settings.full_trees
        ),
        failover_timeout_s=settings.failover_timeout_s,
        layout=layout,
    )
    channels = [ZmqDraftChannel(context, endpoint, keys) for endpoint in settings.endpoints]
    return DraftWorker(engine, methods.drafters, context, channels, metrics, streams.deliver)


def _server(settings: DraftSettings, servicer: DraftingServicer) -> grpc.aio.Server:
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
    address = f"{settings.grpc_host}:{settings.grpc_port}"
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise BadSettings(f"--grpc-port {settings.grpc_port} cannot be bound: {error}") from error
    return server


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_s)


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
