from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from draft_service.row_extents import SMALLEST, Extent, RowExtents


def test_a_run_that_fits_stays_and_one_that_does_not_is_doubled():
    extents = RowExtents(1000)
    first = extents.reserve(10)
    assert first == Extent(0, SMALLEST)
    assert extents.reserve(SMALLEST, first) is first
    second = extents.reserve(SMALLEST + 1, first)
    assert second == Extent(SMALLEST, 2 * SMALLEST)
    extents.release(first)
    assert extents.in_use == 2 * SMALLEST


def test_where_room_is_short_a_run_is_as_long_as_needed():
    extents = RowExtents(100)
    assert extents.reserve(90) == Extent(0, 90)
    assert extents.reserve(11) is None
    assert extents.reserve(10) == Extent(90, 10)
    assert extents.in_use == 100


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 150)), max_size=60))
def test_runs_never_overlap_and_nothing_leaks(steps):
    extents = RowExtents(1000)
    held: dict[int, Extent] = {}
    for session, rows in steps:
        old = held.get(session)
        new = extents.reserve(rows, old)
        if new is None and old is not None:  # it gives up
            extents.release(held.pop(session))
        elif new is not None:
            if old is not None and new is not old:
                extents.release(old)
            held[session] = new
            assert new.size >= rows
        runs = sorted(held.values())
        assert all(a.stop <= b.start for a, b in pairwise(runs))
        assert extents.in_use == sum(run.size for run in runs)
    for run in held.values():
        extents.release(run)
    assert extents.reserve(1000) == Extent(0, 1000)
