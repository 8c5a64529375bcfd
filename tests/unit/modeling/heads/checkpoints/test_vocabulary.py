import pytest
import torch

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.vocabulary import (
    check_t2d,
    d2t_of,
    t2d_of,
    target_ids_of,
)
from tests.unit.modeling.heads.checkpoints.sample_heads import D2T, TARGET_IDS, VOCAB


def test_offsets_become_target_ids() -> None:  # trap 4
    assert target_ids_of(torch.tensor(D2T), 6, VOCAB).tolist() == TARGET_IDS
    assert d2t_of(torch.tensor(TARGET_IDS)).tolist() == D2T


def test_offsets_of_zero_are_the_first_tokens() -> None:  # trap 4
    assert target_ids_of(torch.zeros(6, dtype=torch.int64), 6, VOCAB).tolist() == [*range(6)]


def test_smaller_whole_numbers_do() -> None:
    found = target_ids_of(torch.tensor(D2T, dtype=torch.int32), 6, VOCAB)
    assert found.dtype == torch.int64


@pytest.mark.parametrize(
    ("d2t", "message"),
    [
        ([0, 1, 1, 4, 4, 11], r"d2t\[5\] leads to target token 16, outside"),
        ([-1, 1, 1, 4, 4, 10], r"d2t\[0\] leads to target token -1, outside"),
        ([0, 1, 0, 4, 4, 10], "d2t leads 2 draft tokens to target token 2"),  # B54
        (TARGET_IDS, "looks like a table of token ids"),
        ([0, 1, 1], r"d2t is \[3\], expected \[6\]"),
    ],
)
def test_tables_that_lead_astray_are_refused(d2t: list[int], message: str) -> None:
    with pytest.raises(BadCheckpoint, match=message):
        target_ids_of(torch.tensor(d2t), 6, VOCAB)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_a_table_of_other_values_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(BadCheckpoint, match="whole numbers"):
        target_ids_of(torch.ones(6, dtype=dtype), 6, VOCAB)


def test_marks_must_agree_with_offsets() -> None:
    target_ids = torch.tensor(TARGET_IDS)
    marks = t2d_of(target_ids, VOCAB)
    assert marks.nonzero().flatten().tolist() == TARGET_IDS
    check_t2d(marks, target_ids, VOCAB)
    check_t2d(marks.to(torch.uint8), target_ids, VOCAB)
    marks[3] = False
    with pytest.raises(BadCheckpoint, match="contradict each other at target token 3"):
        check_t2d(marks, target_ids, VOCAB)


def test_an_index_table_that_stays_in_range_is_found_by_the_marks() -> None:
    indices = torch.tensor([0, 2, 4, 6])
    read_as_offsets = target_ids_of(indices, 4, VOCAB)
    with pytest.raises(BadCheckpoint, match="looks like a table of token ids"):
        check_t2d(t2d_of(indices, VOCAB), read_as_offsets, VOCAB)
