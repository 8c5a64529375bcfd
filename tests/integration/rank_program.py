"""One of two ranks that hold a target in parts; the first compares it with the whole target."""

import os
import sys
from pathlib import Path

import torch

from outrider.modeling.heads.head_config import FINAL_NORM
from outrider.modeling.ragged_batch import RaggedBatch, SegmentRows, build_ragged_batch
from outrider.modeling.target import TargetModel
from tests.unit.modeling.tiny_models import VOCAB
from verify_service.parallel_model import LeadingModel, dismiss, follow
from verify_service.ranks import Ranks, join_ranks

SLOTS = 2048
BOUNDARIES = (0, 1, 2, FINAL_NORM)


def batches() -> list[RaggedBatch]:
    """A long prompt, whose slots need more numbers than a frame's first turn has; then trees."""
    generator = torch.Generator().manual_seed(4)
    long = torch.randint(VOCAB, (230,), generator=generator).tolist()
    scattered = [2 * slot + 3 for slot in range(300, 600)]
    chain = SegmentRows(long, range(-1, 229), 0, scattered[:230], 230)
    short = SegmentRows(long[:7], range(-1, 6), 0, range(7), 6)
    tree = SegmentRows([5, 6, 7, 8], [-1, 0, 0, 2], 230, scattered[:234], 0)
    lone = SegmentRows([9], [-1], 7, range(8), 0)
    return [
        build_ragged_batch([chain]),
        build_ragged_batch([short, tree]),
        build_ragged_batch([lone]),
    ]


def compare(parts: LeadingModel, whole: TargetModel) -> None:
    for batch in batches():
        logits = parts.forward(batch)
        assert logits.shape == (len(batch.logit_rows), VOCAB)
        torch.testing.assert_close(logits, whole.forward(batch), atol=1e-4, rtol=1e-4)
    found, expected = (
        model.forward_with_features(batches()[1], BOUNDARIES) for model in (parts, whole)
    )
    torch.testing.assert_close(found[0], expected[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found[1], expected[1], atol=1e-4, rtol=1e-4)
    for model in (parts, whole):  # the path 5, 7, 8
        model.move_rows([2 * 532 + 3, 2 * 533 + 3], [2 * 531 + 3, 2 * 532 + 3])
    slots = [2 * slot + 3 for slot in range(300, 534)]
    next_row = build_ragged_batch([SegmentRows([1], [-1], 233, slots, 0)])
    torch.testing.assert_close(
        parts.forward(next_row), whole.forward(next_row), atol=1e-4, rtol=1e-4
    )


def check(folder: Path, ranks: Ranks) -> None:
    target = TargetModel.load(folder, torch.float32, "auto", rank_count=ranks.count)
    target.allocate(SLOTS)
    assert ranks.gather([ranks.rank, 5]) == [[0, 5], [1, 5]]
    if not ranks.is_first:
        follow(target, ranks)
        return
    whole = TargetModel.load(folder, torch.float32, "cpu")
    whole.allocate(SLOTS)
    assert target.fingerprint == whole.fingerprint
    assert target.facts == whole.facts
    assert [one.kv_heads for one in target.layers] == [one.kv_heads / 2 for one in whole.layers]
    compare(LeadingModel(target, ranks), whole)
    dismiss(ranks)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with join_ranks(os.environ) as joined:
        for argument in sys.argv[1:]:
            check(Path(argument), joined)
    print("done")
