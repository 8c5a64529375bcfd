"""The first rank's orders, read from a list: what follows them holds the same rows."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from outrider.modeling.ragged_batch import RaggedBatch, SegmentRows, build_ragged_batch
from tests.unit.modeling.tiny_models import target_model
from verify_service.parallel_model import LeadingModel, dismiss, follow
from verify_service.ranks import Ranks, join_ranks
from verify_service.step import TargetLost
from verify_service.step_frames import End, Frame, Moves, Pass, decode


@dataclass(frozen=True)
class ListedRanks(Ranks):
    """Keeps frames instead of sending them."""

    frames: list[Frame] = field(default_factory=list)

    def send(self, frame: Frame) -> None:
        self.frames.append(frame)

    def receive(self) -> Frame:
        if not self.frames:
            raise TargetLost("another rank of the target is gone")
        return self.frames.pop(0)


def test_a_model_that_follows_can_go_on_in_place_of_the_first():
    leading, following, ranks = target_model("llama"), target_model("llama"), ListedRanks(count=2)
    first = LeadingModel(leading, ranks)
    slots = [*range(40, 49), 90, 91, 92, 93]
    chain = SegmentRows(range(9), range(-1, 8), 0, slots[:9], 9)
    tree = SegmentRows([5, 6, 7, 8], [-1, 0, 0, 2], 9, slots, 0)
    first.forward(build_ragged_batch([chain]))
    first.forward_with_features(build_ragged_batch([tree]), (1,))
    first.move_rows([92, 93], [91, 92])
    dismiss(ranks)
    follow(following, ranks)
    assert not ranks.frames
    last = build_ragged_batch([SegmentRows([1], [-1], 12, slots, 0)])
    assert torch.equal(leading.forward(last), following.forward(last))


def test_nothing_is_said_of_nothing():
    ranks = ListedRanks(count=2)
    LeadingModel(target_model("llama"), ranks).move_rows([], [])
    assert not ranks.frames
    alone = ListedRanks()
    dismiss(alone)
    assert not alone.frames


class Broken:
    """Fails in every pass."""

    def forward(self, batch: RaggedBatch) -> Tensor:
        raise MemoryError("no room")

    def forward_with_features(
        self, batch: RaggedBatch, feature_layers: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        raise MemoryError("no room")

    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        raise MemoryError("no room")


def test_a_failed_pass_loses_the_target_on_either_side():
    ranks = ListedRanks(count=2)
    batch = build_ragged_batch([SegmentRows([1], [-1], 0, range(1), 0)])
    words = r"a pass failed on rank 0 of 2 \(MemoryError: no room\)"
    with pytest.raises(TargetLost, match=words):
        LeadingModel(Broken(), ranks).forward(batch)
    assert isinstance(decode(ranks.frames[0]), Pass)
    with pytest.raises(TargetLost, match=words):
        follow(Broken(), ranks)
    with pytest.raises(TargetLost, match="another rank of the target is gone"):
        follow(Broken(), ranks)


def test_orders_are_what_was_asked_for():
    ranks = ListedRanks(count=2)
    model = LeadingModel(target_model("llama"), ranks)
    share = SegmentRows([1, 2], [-1, 0], 0, range(7, 9), 1)
    model.forward(build_ragged_batch([share]))
    model.move_rows([8], [7])
    dismiss(ranks)
    orders = [decode(frame) for frame in ranks.frames]
    assert orders == [Pass([share]), Moves([8], [7]), End()]


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1", "RANK": "0"}])
def test_a_process_of_its_own_is_the_only_rank(environ):
    with join_ranks(environ) as ranks:
        assert (ranks.rank, ranks.count, ranks.is_first) == (0, 1, True)
        assert ranks.gather([3, 4]) == [[3, 4]]


@pytest.mark.parametrize(("cores", "local_count", "threads"), [(8, 2, 4), (2, 4, 1), (5, 2, 2)])
def test_ranks_of_a_machine_share_its_cores(cores, local_count, threads):
    assert Ranks(0, 8, local_count).own_threads(cores) == threads
