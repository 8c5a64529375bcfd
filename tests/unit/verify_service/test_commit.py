import pytest

from outrider.protocol.decoding import FinishReason
from verify_service.commit import plan_commit

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


@pytest.mark.parametrize(
    ("tokens", "left", "stops", "kept", "reason"),
    [
        ([5, 6, 7], 10, {2}, 3, None),
        ([5, 2, 7], 10, {2}, 2, STOP),  # B1: the rest of the block is not kept
        ([2, 5, 7], 10, {2}, 1, STOP),
        ([5, 6, 2], 10, {2}, 3, STOP),
        ([5, 6, 2, 8], 5, {2}, 3, STOP),
        ([5, 6, 7, 2, 8], 3, {2}, 3, LENGTH),  # B2: the stop lies behind the limit
        ([5, 6, 2, 7], 3, {2}, 3, STOP),  # the last allowed token is the stop
        ([5, 6, 7], 3, {2}, 3, LENGTH),
        ([5, 6, 7], 2, {2}, 2, LENGTH),  # B7: never a block too much
        ([5], 1, set(), 1, LENGTH),
        ([2, 3], 9, {2, 3}, 1, STOP),
    ],
)
def test_the_earliest_terminator_wins(tokens, left, stops, kept, reason):
    assert plan_commit(tokens, left, stops) == (kept, reason)
