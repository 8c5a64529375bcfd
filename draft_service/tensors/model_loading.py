"""From settings to a draft model that is ready to draft: weights, draft KV, warm caches.

Imported where a draft model is given, and only then: torch comes with it.
"""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig
from transformers.utils.logging import disable_progress_bar

from draft_service.drafters.draft_network import NodeRows, Ranking, TrueRows
from draft_service.settings import DraftSettings
from draft_service.tensors.loading import device_of, pool_rows, target_folder, use_threads
from draft_service.tensors.torch_model import TorchDraftModel
from draft_service.vocabulary import BuiltFor, Vocabulary, misfit
from outrider.embedded_model import resolve_model
from outrider.modeling.dtypes import choose_dtype
from outrider.modeling.target import TargetModel
from outrider.protocol.decoding import Sampling
from outrider.pulling.errors import PullError
from outrider.pulling.hub import fetch_hub_model
from outrider.settings import BadSettings

FLAG = "--draft-model"
WARM_UPS = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DraftingModel:
    """A draft model that is ready.

    Args:
        network: Drafts with it.
        built_for: The target that it fits.
    """

    network: TorchDraftModel
    built_for: BuiltFor


def load_draft_model(settings: DraftSettings) -> DraftingModel:
    """Loads the draft model that the settings name.

    Raises:
        BadSettings: It or the target is not there, they do not fit each other, or the pool is too
            small.
    """
    use_threads(settings)
    started = time.monotonic()
    folder, target = _folder(settings.draft_model), target_folder(settings)
    built_for, id_end = _fitted(settings, folder, target)
    model = _load(settings, folder)
    if not model.layers:
        raise BadSettings(f"{FLAG} {settings.draft_model}: has no attention layers")
    slot_count = pool_rows(settings, sum(model.row_bytes.values()))
    network = TorchDraftModel(model, slot_count, id_end)
    _warm_up(network)
    logger.info("loaded the draft model %s in %.1f s", folder, time.monotonic() - started)
    return DraftingModel(network, built_for)


def _folder(name: str) -> Path:
    found = resolve_model(name, flag=FLAG)
    try:
        return found if isinstance(found, Path) else fetch_hub_model(found)
    except PullError as error:
        raise BadSettings(f"{FLAG} {name}: {error}") from error


def _fitted(settings: DraftSettings, folder: Path, target: Path) -> tuple[BuiltFor, int]:
    """Compares the vocabularies; the target, and the end of the ids that may be guessed."""
    draft, wanted = _vocabulary(FLAG, folder), _vocabulary("--target", target)
    problem = misfit(draft, wanted)
    if problem:
        raise BadSettings(
            f"{FLAG} {settings.draft_model} does not fit --target {settings.target}: {problem}"
        )
    try:
        config = AutoConfig.from_pretrained(target, local_files_only=True)
    except (OSError, ValueError) as error:
        raise BadSettings(f"--target {settings.target}: {error}") from error
    vocab_size = int(config.get_text_config().vocab_size)
    return BuiltFor(wanted.fingerprint, vocab_size), min(wanted.id_end, vocab_size)


def _vocabulary(flag: str, folder: Path) -> Vocabulary:
    path = folder / "tokenizer.json"
    try:
        return Vocabulary.parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadSettings(f"{flag}: {path} cannot be read: {error}") from error


def _load(settings: DraftSettings, folder: Path) -> TargetModel:
    disable_progress_bar()  # type: ignore[no-untyped-call]
    device = device_of(settings)
    dtype = choose_dtype(settings.draft_model_dtype, on_cpu=device == "cpu")
    try:
        return TargetModel.load(folder, dtype, device)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise BadSettings(f"{FLAG} {settings.draft_model} cannot be loaded: {error}") from error


def _warm_up(network: TorchDraftModel) -> None:
    """Runs what a round runs, so that the first one does not look slow."""
    ranking = Ranking(Sampling(), False, 4)
    for _ in range(WARM_UPS):
        network.absorb([TrueRows(0, [0], (), range(1), ranking)])
        for count in (1, 4):
            nodes = NodeRows(
                1, 1, [0] * count, [None] * count, [()] * count, range(1 + count), ranking
            )
            network.expand([nodes])
