"""Which of the two settings makes the pool, what is said of it, and what is refused."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from outrider.modeling.target import TargetModel
from outrider.settings import BadSettings, load_settings
from tests.unit.modeling.tiny_models import target_model
from verify_service import pool_allocation
from verify_service.pool_allocation import FEATURE_LAYERS, allocate_pool
from verify_service.pool_size import MIB
from verify_service.ranks import Ranks
from verify_service.settings import VerifySettings

FREE = 8 * MIB
ROW = 2 * 2 * 2 * 8 * 4  # keys and values of two layers with two heads of size 8, float32
FEATURES = FEATURE_LAYERS * 32 * 4


@pytest.fixture(autouse=True)
def eight_mib_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_allocation, "free_bytes", lambda device: FREE)


@pytest.fixture
def model() -> TargetModel:
    return target_model("llama", slots=1)


def settings(*words: str) -> VerifySettings:
    return load_settings(VerifySettings, words, {})


def test_a_share_wins_and_leaves_room_for_features(
    model: TargetModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    blocks = allocate_pool(model, settings("--kv-cache-share", "0.5"), Ranks())
    rows = FREE // 2 // (ROW + FEATURES)
    assert (blocks.block_count, blocks.block_size) == (rows // 16, 16)
    pool = model._pool
    assert pool is not None
    assert pool.slot_count == rows // 16 * 16
    assert caplog.messages == [
        f"KV pool by --kv-cache-share 0.5: {rows // 16} blocks of 16, {rows // 16 * 16} tokens: "
        f"{rows // 16 * 16 * ROW // MIB} of 8 free MiB on cpu"
    ]


def test_without_a_share_the_size_counts(model: TargetModel) -> None:
    assert allocate_pool(model, settings("--kv-cache-mib", "2"), Ranks()).block_count == (
        2 * MIB // ROW // 16
    )


def test_a_pool_beyond_what_is_free_is_refused(model: TargetModel) -> None:
    words = "^--kv-cache-mib 9: 9 MiB of it would lie on cpu, where 8 MiB are free$"
    with pytest.raises(BadSettings, match=words):
        allocate_pool(model, settings("--kv-cache-mib", "9"), Ranks())


def test_a_pool_that_does_not_hold_a_tree_is_refused(model: TargetModel) -> None:
    words = r"--kv-cache-share 0.002 holds 1 blocks of 16 rows \(256 bytes a row\); a tree of 64"
    with pytest.raises(BadSettings, match=words):
        allocate_pool(model, settings("--kv-cache-share", "0.002"), Ranks())


@dataclass(frozen=True)
class TwoRanks(Ranks):
    """The other rank has a quarter of the memory."""

    def gather(self, numbers: Sequence[int]) -> list[list[int]]:
        free, row_bytes = numbers
        return [[free, row_bytes], [free // 4, row_bytes]]


@pytest.mark.parametrize("local_count", [1, 2])
def test_all_ranks_have_the_pool_of_the_tightest(model: TargetModel, local_count: int) -> None:
    """And ranks of one machine share its memory."""
    chosen = settings("--kv-cache-share", "0.9", "--max-nodes", "8")
    counts = {
        allocate_pool(model, chosen, TwoRanks(rank, 2, local_count)).block_count for rank in (0, 1)
    }
    assert counts == {int(0.9 * (FREE // local_count // 4)) // ROW // 16}
    words = r"would lie on rank 1 \(cpu\), where [12] MiB are free"
    with pytest.raises(BadSettings, match=words):
        allocate_pool(model, settings("--kv-cache-mib", "6"), TwoRanks(1, 2, local_count))


@pytest.mark.parametrize("words", [("--kv-cache-share", "1"), ("--kv-cache-share", "-0.1")])
def test_a_share_is_below_one(words: tuple[str, str]) -> None:
    with pytest.raises(BadSettings, match="--kv-cache-share"):
        settings(*words)


def test_the_device_type_of_the_pool_is_that_of_the_model(model: TargetModel) -> None:
    assert model.row_bytes == {torch.device("cpu"): ROW}
