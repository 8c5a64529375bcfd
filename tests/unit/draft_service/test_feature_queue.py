from hypothesis import given
from hypothesis import strategies as st

from draft_service.drafters.feature_queue import FeatureQueue
from outrider.protocol.features import TensorType
from outrider.protocol.messages import FeatureRows


def rows(start: int, stop: int) -> FeatureRows:
    """Two float16 values a row, four bytes that name it."""
    data = b"".join(row.to_bytes(4, "little") for row in range(start, stop))
    return FeatureRows(b"s" * 16, 0, start, stop - start, 2, TensorType.FLOAT16, data)


def names(pieces: tuple[FeatureRows, ...]) -> list[int]:
    """The rows that some pieces hold; each piece says the truth about itself."""
    found: list[int] = []
    for piece in pieces:
        inside = [
            int.from_bytes(piece.data[at : at + 4], "little") for at in range(0, len(piece.data), 4)
        ]
        assert inside == list(range(piece.first_row, piece.stop_row))
        found += inside
    return found


def test_rows_come_out_in_order_however_they_are_cut():
    queue = FeatureQueue()
    assert queue.push(rows(0, 5))
    assert queue.push(rows(5, 7))
    assert names(queue.take(3)) == [0, 1, 2]
    assert names(queue.take(3)) == [3, 4, 5]
    assert len(queue) == 1


def test_repeated_rows_are_ignored_and_gaps_refused():
    queue = FeatureQueue()
    assert queue.push(rows(0, 4))
    assert queue.push(rows(2, 6))
    assert queue.push(rows(1, 3))
    assert not queue.push(rows(7, 9))
    assert names(queue.take(6)) == list(range(6))


def test_rows_of_uncommitted_tokens_can_be_forgotten():
    queue = FeatureQueue()
    queue.push(rows(0, 3))
    queue.push(rows(3, 8))
    queue.forget_from(5)
    assert queue.next_row == 5
    queue.forget_from(3)
    assert queue.push(rows(3, 4))
    assert names(queue.take(4)) == [0, 1, 2, 3]
    queue.forget_from(0)
    assert queue.next_row == 4, "what was taken is not queued"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5), st.integers(0, 6)), max_size=20))
def test_any_order_of_pushing_and_taking(steps):
    queue, expected = FeatureQueue(), 0
    for back, count, taken in steps:
        start = max(0, queue.next_row - back)
        assert queue.push(rows(start, start + count))
        taken = min(taken, len(queue))
        assert names(queue.take(taken)) == list(range(expected, expected + taken))
        expected += taken
    assert queue.first_row == expected
