"""A frame gives back the order that was made of it, and nothing but a whole frame is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.modeling.ragged_batch import SegmentRows
from verify_service.step_frames import End, Moves, Order, Pass, decode, encode

SLOT = st.integers(0, 10_000)


@st.composite
def shares(draw: st.DrawFn) -> SegmentRows:
    num_rows, cached_rows = draw(st.integers(1, 6)), draw(st.integers(0, 20))
    first, count = draw(SLOT), num_rows + cached_rows
    token_ids = draw(st.lists(st.integers(0, 2**31), min_size=num_rows, max_size=num_rows))
    parents = [draw(st.integers(-1, row - 1)) for row in range(num_rows)]
    scattered = draw(st.lists(SLOT, min_size=count, max_size=count, unique=True))
    slots = range(first, first + count) if draw(st.booleans()) else scattered
    return SegmentRows(token_ids, parents, cached_rows, slots, draw(st.integers(0, num_rows)))


ORDERS = st.one_of(
    st.builds(Pass, st.lists(shares(), min_size=1, max_size=4)),
    st.lists(st.tuples(SLOT, SLOT), max_size=8).map(
        lambda pairs: Moves([a for a, _ in pairs], [b for _, b in pairs])
    ),
    st.just(End()),
)


@given(ORDERS)
def test_an_order_comes_back_whole(order: Order):
    frame = encode(order)
    assert frame.dtype == np.int64
    found = decode(frame)
    if isinstance(order, Pass) and isinstance(found, Pass):
        for one, other in zip(found.shares, order.shares, strict=True):
            assert list(one.slots) == list(other.slots)
            assert (one.token_ids, one.parents) == (other.token_ids, other.parents)
            assert (one.cached_rows, one.logits_from) == (other.cached_rows, other.logits_from)
    else:
        assert found == order


def test_contiguous_slots_stay_a_range_and_scattered_ones_become_few_numbers():
    """A range is read from the pool as a view; 3,000 slots in two runs are four numbers."""
    contiguous = SegmentRows([1], [-1], 2999, range(50, 3050), 0)
    scattered = SegmentRows([1], [-1], 2999, [*range(1500), *range(9000, 10_500)], 0)
    frame = encode(Pass([contiguous, scattered]))
    assert len(frame) == 2 + (4 + 1 + 1 + 2) + (4 + 1 + 1 + 4)
    found = decode(frame)
    assert isinstance(found, Pass)
    assert found.shares[0].slots == range(50, 3050)
    assert found.shares[1].slots == scattered.slots


@given(ORDERS, st.data())
def test_a_frame_that_is_not_whole_is_refused(order: Order, data: st.DataObject):
    frame = encode(order)
    with pytest.raises(ValueError, match="numbers behind the end"):
        decode(np.append(frame, 0))
    if len(frame) > 1:
        cut = data.draw(st.integers(1, len(frame) - 1))
        with pytest.raises(ValueError, match="ends too early"):
            decode(frame[:cut])


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="a frame of kind 9"):
        decode(np.array([9]))
