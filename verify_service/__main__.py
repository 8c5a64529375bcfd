"""Runs a verify worker: `python -m verify_service --model FOLDER`. The composition root."""

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import zmq

from outrider.protocol.zmq_channel import CurveKeys, UnsafeEndpoint, ZmqVerifyChannel
from outrider.settings import BadSettings, exit_for_bad_settings, load_settings_or_exit
from outrider.supervised import watch_parent
from outrider.telemetry.logging import setup_logging
from outrider.telemetry.metrics import VerifyMetrics
from outrider.telemetry.tracing import setup_tracing, shutdown_tracing
from verify_service.engine import VerifyEngine
from verify_service.executor import TorchExecutor
from verify_service.loading import load_target
from verify_service.settings import VerifySettings
from verify_service.spans import RoundSpans
from verify_service.worker import VerifyWorker

logger = logging.getLogger("verify_service")


def main(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Starts the worker and runs it until it is told to stop.

    Raises:
        SystemExit: A setting is bad (78).
    """
    settings = load_settings_or_exit(VerifySettings, argv, environ)
    setup_logging("verify", settings.log_level)
    setup_tracing("outrider-verify", environ)
    try:
        _serve(settings, environ)
    except (BadSettings, UnsafeEndpoint) as error:
        exit_for_bad_settings(settings.program, str(error))
    finally:
        shutdown_tracing()
    logger.info("stopped")


def _serve(settings: VerifySettings, environ: Mapping[str, str]) -> None:
    keys = settings.curve_keys()
    metrics = VerifyMetrics()
    settings.serve_metrics(metrics.registry)
    loaded = load_target(settings)
    metrics.kv_blocks_total.set(loaded.blocks.block_count)
    channel = _bind(settings.endpoint, keys)
    cost_table = loaded.identity.cost_table
    token_budget = cost_table.rows_within(settings.max_step_ms * 1000, settings.token_budget)
    worker = VerifyWorker(
        VerifyEngine(loaded.identity, loaded.blocks, token_budget, loaded.grammars),
        TorchExecutor(loaded.model),
        channel,
        metrics,
        on_decided=RoundSpans().record,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop(settings.drain_timeout_s))
    watch_parent(lambda: worker.stop(0.0), environ)
    logger.info("ready: %s on %s", loaded.identity.target.model, channel.endpoint)
    worker.run()


def _bind(endpoint: str, keys: CurveKeys | None) -> ZmqVerifyChannel:
    try:
        return ZmqVerifyChannel(endpoint, keys)
    except zmq.ZMQError as error:
        raise BadSettings(f"--endpoint {endpoint} cannot be bound: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
