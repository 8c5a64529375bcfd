"""Runs a verify worker: `python -m verify_service --model FOLDER`. The composition root."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import zmq

from outrider.protocol.zmq_channel import CurveKeys, UnsafeEndpoint, ZmqVerifyChannel
from outrider.settings import BadSettings, exit_for_bad_settings, load_settings_or_exit
from outrider.supervised import watch_parent
from outrider.telemetry.logging import setup_logging
from outrider.telemetry.metrics import VerifyMetrics
from outrider.telemetry.tracing import setup_tracing, shutdown_tracing
from verify_service.device_memory import show_device_memory
from verify_service.engine import VerifyEngine
from verify_service.executor import TorchExecutor
from verify_service.loading import describe_target, load_model
from verify_service.parallel_model import dismiss, follow
from verify_service.rank_processes import rank_processes
from verify_service.ranks import Ranks, join_ranks, rank_of
from verify_service.settings import VerifySettings
from verify_service.spans import RoundSpans
from verify_service.step import EXIT_TARGET_LOST, TargetLost
from verify_service.worker import VerifyWorker

logger = logging.getLogger("verify_service")


def main(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Starts the worker and runs it until it is told to stop.

    Raises:
        SystemExit: A setting is bad (78), or a part of the target is gone (70).
    """
    settings = load_settings_or_exit(VerifySettings, argv, environ)
    # While it loads; the first process of a container would ignore the signal.
    _on_stop(lambda: sys.exit(0))
    rank = rank_of(environ)
    name = f"verify.{rank}" if rank else "verify"
    setup_logging(name, settings.log_level, log_format=settings.log_format)
    if not rank:
        setup_tracing("outrider-verify", environ)
    try:
        with ExitStack() as stack:
            if "WORLD_SIZE" not in environ and settings.tensor_parallel > 1:
                stack.enter_context(rank_processes(settings.tensor_parallel, argv, environ))
            ranks = stack.enter_context(join_ranks(os.environ))
            _check_count(settings, ranks)
            if ranks.is_first:
                _serve(settings, ranks, environ)
            else:
                _follow(settings, ranks)
    except (BadSettings, UnsafeEndpoint) as error:
        program = settings.program + (f" (rank {rank})" if rank else "")
        exit_for_bad_settings(program, str(error))
    except TargetLost as error:
        logger.error("%s; the target cannot go on", error)
        raise SystemExit(EXIT_TARGET_LOST) from error
    finally:
        shutdown_tracing()
    logger.info("stopped")


def _serve(settings: VerifySettings, ranks: Ranks, environ: Mapping[str, str]) -> None:
    keys = settings.curve_keys()
    metrics = VerifyMetrics()
    settings.serve_metrics(metrics.registry)
    # Health is answered while the model loads: that may take minutes, and is no hang.
    with settings.serve_health() as health:
        model, blocks = load_model(settings, ranks)
        loaded = describe_target(model, blocks, settings, ranks)
        metrics.kv_blocks_total.set(loaded.blocks.block_count)
        show_device_memory(metrics.device_memory, (layer.device for layer in model.layers))
        channel = _bind(settings.endpoint, keys)
        cost_table = loaded.identity.cost_table
        token_budget = cost_table.rows_within(settings.max_step_ms * 1000, settings.token_budget)
        worker = VerifyWorker(
            VerifyEngine(loaded.identity, loaded.blocks, token_budget, loaded.grammars),
            TorchExecutor(loaded.model, blocks.block_count * blocks.block_size),
            channel,
            metrics,
            on_decided=RoundSpans().record,
        )

        def drain() -> None:
            health.drain()
            worker.stop(settings.drain_timeout_s)

        _on_stop(drain)
        watch_parent(lambda: worker.stop(0.0), environ)
        health.follow(lambda: worker.is_live, lambda: worker.takes_sessions)
        logger.info("ready: %s on %s", loaded.identity.target.model, channel.endpoint)
        worker.run()
        dismiss(ranks)


def _follow(settings: VerifySettings, ranks: Ranks) -> None:
    # The first rank is told to stop too, and says when there is nothing left to run.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    watch_parent(_end_at_once, os.environ)
    model, _ = load_model(settings, ranks)
    follow(model, ranks)


def _on_stop(act: Callable[[], object]) -> None:
    """Acts on SIGTERM and SIGINT from now on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())


def _end_at_once() -> None:
    """For a rank whose first one has died, whatever it is waiting for."""
    logger.error("the process that started this rank is gone")
    os._exit(EXIT_TARGET_LOST)


def _check_count(settings: VerifySettings, ranks: Ranks) -> None:
    if settings.tensor_parallel not in (0, ranks.count):
        raise BadSettings(
            f"--tensor-parallel {settings.tensor_parallel}: torchrun has started {ranks.count}"
        )


def _bind(endpoint: str, keys: CurveKeys | None) -> ZmqVerifyChannel:
    try:
        return ZmqVerifyChannel(endpoint, keys)
    except zmq.ZMQError as error:
        raise BadSettings(f"--endpoint {endpoint} cannot be bound: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
