"""Runs the gateway: `python -m gateway --model FOLDER`. The composition root, and nothing else."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence

from gateway.admission import Admission
from gateway.draft_client import DraftClient
from gateway.draft_workers import DraftWorkers
from gateway.gate import Gate
from gateway.generation import Generation, GenerationLimits
from gateway.http_api import create_app
from gateway.listeners import GrpcListener, HttpListener, PortTaken
from gateway.placing import Placing
from gateway.playground.routes import add_playground
from gateway.readiness import Readiness
from gateway.settings import GatewaySettings
from gateway.tokenization import BadModelFolder, PromptTokenizer
from outrider.settings import BadSettings, exit_for_bad_settings, load_settings_or_exit
from outrider.supervised import stop_event
from outrider.telemetry.logging import setup_logging
from outrider.telemetry.metrics import GatewayMetrics
from outrider.telemetry.tracing import setup_tracing, shutdown_tracing

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
    setup_logging("gateway", settings.log_level)
    setup_tracing("outrider-gateway", environ)
    try:
        tokenizer = PromptTokenizer.from_folder(settings.model)
        asyncio.run(serve(settings, tokenizer, environ))
    except (BadModelFolder, BadSettings, PortTaken) as error:
        exit_for_bad_settings(settings.program, str(error))
    finally:
        shutdown_tracing()


async def serve(
    settings: GatewaySettings, tokenizer: PromptTokenizer, environ: Mapping[str, str]
) -> None:
    """Serves until SIGTERM, SIGINT or the supervisor's end, then drains."""
    stopping = stop_event(environ)
    access = settings.access()
    metrics = GatewayMetrics()

    def open_client(address: str) -> DraftClient:
        return DraftClient(address, tokenizer, settings.worker_timeout_s, settings.model_name)

    async with DraftWorkers(settings.draft_sources, open_client, metrics) as workers:
        placing = Placing(workers, metrics, settings.failover_timeout_s)
        admission = Admission(settings.max_running_requests, settings.max_queued_requests)
        limits = GenerationLimits(settings.default_max_new_tokens, settings.max_deadline_s)
        gate = Gate(admission, metrics)
        generation = Generation(tokenizer, workers, placing, gate, metrics, limits)
        grpc_listener = GrpcListener(
            generation, access, settings.reflection, settings.max_request_bytes
        )
        readiness = Readiness(workers, grpc_listener.show_readiness)
        app = create_app(generation, readiness, metrics, settings.max_request_bytes, access)
        if settings.playground:
            add_playground(app)
        http_listener = HttpListener(app)
        await grpc_listener.start(settings.grpc_host, settings.grpc_port)
        await http_listener.start(settings.http_host, settings.http_port)
        watches = [
            asyncio.create_task(readiness.watch(), name="readiness"),
            asyncio.create_task(workers.watch(), name="draft-workers"),
        ]
        for watch in watches:
            # Without it nobody would know whether requests can be served: better started anew.
            watch.add_done_callback(lambda _: stopping.set())
        _logger.info(
            "ready: gRPC on %s:%d, HTTP on %s:%d",
            settings.grpc_host,
            settings.grpc_port,
            settings.http_host,
            settings.http_port,
        )
        await stopping.wait()
        _logger.info("draining for up to %g s", settings.drain_timeout_s)
        await readiness.drain()
        await asyncio.gather(
            grpc_listener.stop(settings.drain_timeout_s),
            http_listener.stop(settings.drain_timeout_s),
        )
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    _logger.info("stopped")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
