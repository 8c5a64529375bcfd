"""From settings to a target that is ready to run: weights, pool, cost table."""

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from outrider.embedded_model import EMBEDDED, MODEL_NAME, resolve_model
from outrider.grammars import Grammars
from outrider.modeling.dtypes import choose_dtype
from outrider.modeling.target import TargetModel
from outrider.protocol import messages as m
from outrider.protocol.fingerprints import tokenizer_fingerprint
from outrider.settings import BadSettings
from verify_service.calibration import measure_cost_table
from verify_service.executor import TorchModel
from verify_service.grammar_threads import GrammarThreads
from verify_service.kv_blocks import KvBlocks
from verify_service.settings import VerifySettings
from verify_service.thread_choice import ThreadChoice
from verify_service.timed_model import TimedModel

MIB = 2**20

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A target with its pool, and what peers are told of it."""

    model: TorchModel
    blocks: KvBlocks
    identity: m.HelloAck
    grammars: GrammarThreads | None


def load_target(settings: VerifySettings) -> LoadedTarget:
    """Loads the weights, allocates the pool and measures the cost table.

    Raises:
        BadSettings: The model is not there or cannot be loaded, or the pool is too small.
    """
    source = resolve_model(settings.model)
    device_map = _device_map(settings.device_map)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    started = time.monotonic()
    model = _load(source, choose_dtype(settings.dtype, on_cpu=device_map == "cpu"), device_map)
    logger.info("loaded %s in %.1f s", source, time.monotonic() - started)
    blocks = _allocate(model, settings)
    runner = _runner(model, device_map)
    table = measure_cost_table(
        runner.forward, time.monotonic, blocks.block_count * settings.block_size,
        settings.max_nodes, _synchronize,
    )  # fmt: skip
    logger.info(
        "a forward pass takes %s ms",
        ", ".join(
            f"{micros / 1000:.1f} ({rows} rows)"
            for rows, micros in zip(table.rows, table.micros, strict=True)
        ),
    )
    identity = _identity(settings, source, model, blocks, table)
    return LoadedTarget(runner, blocks, identity, _grammars(source, identity.target))


def _load(source: Path | str, dtype: torch.dtype | str, device_map: str) -> TargetModel:
    # The supervisor shows what is loading.
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return TargetModel.load(source, dtype, device_map)
    except (OSError, ValueError) as error:
        raise BadSettings(f"--model {source} cannot be loaded: {error}") from error


def _runner(model: TargetModel, device_map: str) -> TorchModel:
    if device_map != "cpu":
        return model
    choice = ThreadChoice((1, torch.get_num_threads()))
    return TimedModel(model, choice, time.monotonic)


def _allocate(model: TargetModel, settings: VerifySettings) -> KvBlocks:
    bytes_per_block = model.bytes_per_row * settings.block_size
    block_count = settings.kv_cache_mib * MIB // bytes_per_block
    if block_count * settings.block_size < settings.max_nodes + 2:
        raise BadSettings(
            f"--kv-cache-mib {settings.kv_cache_mib} holds {block_count} blocks of "
            f"{settings.block_size} rows ({model.bytes_per_row} bytes a row); a tree of "
            f"{settings.max_nodes} nodes does not fit"
        )
    model.allocate(block_count * settings.block_size)
    return KvBlocks(block_count, settings.block_size, settings.prefix_cache)


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


def _device_map(setting: str) -> str:
    if setting == "auto" and not torch.cuda.is_available():
        return "cpu"
    return setting


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
