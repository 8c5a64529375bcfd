"""The head that comes with the embedded model: it is there, it fits, it says what it is made of."""

from pathlib import Path

import pytest

from outrider.embedded_model import EMBEDDED_HEAD, resolve_model
from outrider.modeling.heads.checkpoints import TargetFiles, load_head
from outrider.modeling.heads.head_config import HeadKind
from outrider.settings import BadSettings

MOST_BYTES = 21 * 10**6


@pytest.fixture(scope="module")
def target() -> TargetFiles:
    try:
        return TargetFiles(Path(resolve_model("")))
    except BadSettings as error:
        pytest.skip(str(error))


def test_it_fits_its_target(target: TargetFiles) -> None:
    head = load_head(EMBEDDED_HEAD, target)
    assert head.config.kind is HeadKind.EAGLE3
    assert head.config.vocab_size == target.vocab_size
    assert len(head.tensors["target_ids"]) == head.config.draft_vocab_size == 8192
    assert head.borrowed == ("embed_tokens.weight",)


def test_it_is_small_and_has_its_card() -> None:
    assert sum(path.stat().st_size for path in EMBEDDED_HEAD.iterdir()) <= MOST_BYTES
    card = (EMBEDDED_HEAD / "README.md").read_text(encoding="utf-8")
    for heading in ("## Data", "## Recipe", "## Licence", "## Tokens per round"):
        assert heading in card, heading
    assert (EMBEDDED_HEAD / "curves.svg").read_text(encoding="utf-8").startswith("<svg")
