"""Equal beginnings have equal names, and nothing else has."""

from hypothesis import given
from hypothesis import strategies as st

from verify_service.prefix_names import NAME_BYTES, PrefixNames


@given(
    one=st.lists(st.integers(0, 3), max_size=20),
    other=st.lists(st.integers(0, 3), max_size=20),
    size=st.integers(1, 4),
)
def test_names_are_equal_as_far_as_whole_blocks_are(one, other, size):
    first, second = (PrefixNames(size).of(ids, len(ids)) for ids in (one, other))
    assert (len(first), len(second)) == (len(one) // size, len(other) // size)
    for place, (a, b) in enumerate(zip(first, second, strict=False), start=1):
        assert (a == b) == (one[: place * size] == other[: place * size])
        assert len(a) == NAME_BYTES


def test_names_grow_with_the_rows_that_may_be_named():
    names, ids = PrefixNames(2), [1, 2, 3, 4, 5]
    assert names.of(ids, 1) == []
    assert len(names.of(ids, 3)) == 1
    whole = names.of([*ids, 6], 6)
    assert whole == PrefixNames(2).of([1, 2, 3, 4, 5, 6], 6)
    assert names.of(ids, 2) == whole[:1]


def test_salts_keep_texts_apart():
    plain, salted = PrefixNames(1).of([5], 1), PrefixNames(1, b"tenant").of([5], 1)
    assert plain != salted
    assert salted == PrefixNames(1, b"tenant").of([5], 1)
