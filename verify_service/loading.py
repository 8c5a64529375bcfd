"""From settings to a target that is ready to run: weights, pool, cost table."""

import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from outrider.embedded_model import EMBEDDED, MODEL_NAME, resolve_model
from outrider.grammars import Grammars
from outrider.modeling.dtypes import choose_dtype
from outrider.modeling.quantization import Quantization
from outrider.modeling.target import TargetModel
from outrider.protocol import messages as m
from outrider.protocol.fingerprints import tokenizer_fingerprint
from outrider.settings import BadSettings
from verify_service.calibration import measure_cost_table
from verify_service.executor import TorchModel
from verify_service.grammar_threads import GrammarThreads
from verify_service.kv_blocks import KvBlocks
from verify_service.parallel_model import LeadingModel
from verify_service.pool_allocation import allocate_pool
from verify_service.pool_size import MIB
from verify_service.ranks import Ranks
from verify_service.settings import VerifySettings
from verify_service.thread_choice import ThreadChoice
from verify_service.timed_model import TimedModel

CPU = "cpu"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A target with its pool, and what peers are told of it."""

    model: TorchModel
    blocks: KvBlocks
    identity: m.HelloAck
    grammars: GrammarThreads | None


def load_model(settings: VerifySettings, ranks: Ranks) -> tuple[TargetModel, KvBlocks]:
    """Loads the weights and allocates the pool, this rank's part of both; all ranks come here.

    Raises:
        BadSettings: The model is not there or cannot be loaded, or the pool does not fit.
    """
    source = resolve_model(settings.model)
    device_map = _device_map(settings.device_map, ranks)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    elif ranks.count > 1:
        torch.set_num_threads(ranks.own_threads(os.cpu_count() or 1))
    dtype = choose_dtype(settings.dtype, on_cpu=device_map == CPU)
    started = time.monotonic()
    disable_progress_bar()  # type: ignore[no-untyped-call] # the supervisor shows what is loading
    try:
        model = TargetModel.load(
            source, dtype, device_map, Quantization(settings.quantization), ranks.count
        )
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        logger.debug("loading failed", exc_info=error)
        raise BadSettings(f"--model {source} cannot be loaded: {error}") from error
    seconds, mib = time.monotonic() - started, model.weight_bytes // MIB
    logger.info("loaded %s in %.1f s, %d MiB of weights here", source, seconds, mib)
    return model, allocate_pool(model, settings, ranks)


def describe_target(
    model: TargetModel, blocks: KvBlocks, settings: VerifySettings, ranks: Ranks
) -> LoadedTarget:
    """Measures what passes cost, and says what the target is; for the first rank."""
    runner = _runner(model, ranks)
    devices = {layer.device for layer in model.layers}
    table = measure_cost_table(
        runner.forward, time.monotonic, blocks.block_count * settings.block_size,
        settings.max_nodes, lambda: _synchronize(devices),
    )  # fmt: skip
    logger.info(
        "a forward pass takes %s ms",
        ", ".join(
            f"{micros / 1000:.1f} ({rows} rows)"
            for rows, micros in zip(table.rows, table.micros, strict=True)
        ),
    )
    source = resolve_model(settings.model)
    identity = _identity(settings, source, model, blocks, table)
    return LoadedTarget(runner, blocks, identity, _grammars(source, identity.target))


def _runner(model: TargetModel, ranks: Ranks) -> TorchModel:
    if ranks.count > 1:
        return LeadingModel(model, ranks)
    if any(layer.device.type != CPU for layer in model.layers):
        return model
    choice = ThreadChoice((1, torch.get_num_threads()))
    return TimedModel(model, choice, time.monotonic)


def _identity(
    settings: VerifySettings,
    source: Path | str,
    model: TargetModel,
    blocks: KvBlocks,
    table: m.CostTable,
) -> m.HelloAck:
    pool_rows = blocks.block_count * settings.block_size
    limits = [model.facts.context_limit, pool_rows - settings.max_nodes]
    if settings.context_limit:
        limits.append(settings.context_limit)
    name = MODEL_NAME if settings.model in ("", EMBEDDED) else Path(str(source)).name
    target = m.TargetDescription(
        model=settings.model_name or name,
        target_fingerprint=model.fingerprint,
        tokenizer_fingerprint=_tokenizer_fingerprint(source),
        vocab_size=model.facts.vocab_size,
        context_limit=min(limits),
        eos_token_ids=model.facts.eos_token_ids,
        max_nodes=settings.max_nodes,
        max_depth=settings.max_depth,
        hidden_size=model.facts.hidden_size,
        layer_count=model.facts.layer_count,
    )
    return m.HelloAck(os.urandom(m.ID_BYTES), target, settings.lease_ms, table)


def _grammars(source: Path | str, target: m.TargetDescription) -> GrammarThreads | None:
    if not isinstance(source, Path):
        return None
    try:
        reader = Grammars.of_folder(source, target.vocab_size, target.eos_token_ids)
    except ValueError as error:
        logger.warning("requests with a grammar will be refused: %s", error)
        return None
    return None if reader is None else GrammarThreads(reader)


def _tokenizer_fingerprint(source: Path | str) -> str:
    """Of the tokenizer.json beside the weights, or "" where there is no such file at hand."""
    file = Path(source) / "tokenizer.json"
    return tokenizer_fingerprint(file.read_text(encoding="utf-8")) if file.is_file() else ""


def _device_map(setting: str, ranks: Ranks) -> str:
    if ranks.count > 1 and setting != "auto":
        raise BadSettings(
            f"--device-map {setting}: each rank of {ranks.count} has a device of its own; leave it "
            "at auto"
        )
    if setting == "auto" and not torch.cuda.is_available():
        return CPU
    return setting


def _synchronize(devices: Iterable[torch.device]) -> None:
    for device in devices:
        if device.type != CPU:
            torch.accelerator.synchronize(device)
