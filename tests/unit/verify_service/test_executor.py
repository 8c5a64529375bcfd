"""What the executor asks of the network, and how features become bytes."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from outrider.modeling.ragged_batch import RaggedBatch
from outrider.protocol.decoding import Sampling
from outrider.protocol.features import TensorType
from verify_service.executor import TorchExecutor
from verify_service.feature_pool import FeaturePool
from verify_service.step import Segment

HIDDEN_SIZE = 2
SLOTS = 256


class EchoModel:
    """Features are `[1000 * layer + position, token]`; notes which layers it was asked for."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.asked: list[tuple[int, ...]] = []
        self._dtype = dtype

    def forward(self, batch: RaggedBatch) -> Tensor:
        return torch.zeros(len(batch.logit_rows), 5)

    def forward_with_features(
        self, batch: RaggedBatch, feature_layers: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        self.asked.append(feature_layers)
        columns = [
            torch.stack([1000 * layer + batch.position_ids, batch.token_ids], dim=1)
            for layer in feature_layers
        ]
        return self.forward(batch), torch.cat(columns, dim=1).to(self._dtype)

    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        raise AssertionError("nothing moves here")


def segment(
    token_ids: Sequence[int], cached_rows: int, *layers: int, first_slot: int = 0
) -> Segment:
    count = len(token_ids)
    slots = range(first_slot, first_slot + cached_rows + count)
    parents = tuple(range(-1, count - 1))
    return Segment(tuple(token_ids), parents, cached_rows, slots, 0, Sampling(), layers)


def test_without_wishes_the_plain_pass_is_run():
    model = EchoModel()
    answers = TorchExecutor(model, SLOTS).run([segment([1, 2], 0)])
    assert model.asked == []
    assert answers.features_of([[]]) == [None]


def test_one_pass_captures_the_layers_of_all_and_each_segment_reads_its_own():
    model = EchoModel()
    segments = [
        segment([1, 2, 3], 5, 4, -1),
        segment([4], 0, first_slot=20),
        segment([5, 6], 7, 2, 4, first_slot=30),
    ]
    answers = TorchExecutor(model, SLOTS).run(segments)
    assert model.asked == [(2, 4, -1)], "low to high, the final norm last"
    first, none, third = answers.features_of([[0, 2], [], [1]])
    assert first is not None
    assert third is not None
    assert none is None
    assert (first.row_size, third.row_size) == (2 * HIDDEN_SIZE, 2 * HIDDEN_SIZE)
    assert values(first.data) == [4005, 1, -995, 1, 4007, 3, -993, 3]
    assert values(third.data) == [2008, 6, 4008, 6]


def test_features_of_rows_that_were_run_before_are_still_there_wherever_they_moved():
    class Moving(EchoModel):
        def move_rows(self, sources: list[int], destinations: list[int]) -> None:
            pass

    executor = TorchExecutor(Moving(), SLOTS)
    executor.run([segment([1, 2, 3, 4], 0, 2)])
    executor.move_rows([3, 2], [2, 3])
    executor.run([segment([9], 40, 2, first_slot=100)])
    answers = executor.run([segment([5], 4, 2)])
    (block,) = answers.features_of([[-4, -2, -1, 0]])
    assert block is not None
    assert values(block.data) == [2000, 1, 2003, 4, 2002, 3, 2004, 5]


def test_features_take_their_room_once():
    pool = FeaturePool(10)
    places = set()
    for slot in (3, 4, 9):
        pool.write((2,), torch.tensor([slot]), torch.full((1, HIDDEN_SIZE), float(slot)))
        places.add((pool._rows[2].data_ptr(), len(pool._rows[2])))
    assert [size for _, size in places] == [10]
    assert pool.read((2,), [4, 9, 3])[:, 0].tolist() == [4, 9, 3]


@pytest.mark.parametrize(
    ("dtype", "tensor_type"),
    [
        (torch.float32, TensorType.FLOAT32),
        (torch.float16, TensorType.FLOAT16),
        (torch.bfloat16, TensorType.BFLOAT16),
    ],
)
def test_features_keep_the_type_of_the_target(dtype, tensor_type):
    answers = TorchExecutor(EchoModel(dtype), SLOTS).run([segment([3], 2, 0)])
    (block,) = answers.features_of([[0]])
    assert block is not None
    assert block.tensor_type is tensor_type
    assert len(block.data) == HIDDEN_SIZE * tensor_type.size
    assert values(block.data, dtype) == [2, 3]


def values(data: bytes, dtype: torch.dtype = torch.float32) -> list[float]:
    return torch.frombuffer(bytearray(data), dtype=dtype).tolist()
