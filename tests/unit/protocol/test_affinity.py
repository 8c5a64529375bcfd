"""Streams with the same beginning meet at one worker, as long as that is fair."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from outrider.protocol.affinity import PREFIX_TOKENS, affinity_key, choose_worker

NAMES = ("a:1", "b:1", "c:1")


def idle(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, 0)


def test_the_first_tokens_and_the_salt_make_the_key() -> None:
    start = list(range(PREFIX_TOKENS))
    assert affinity_key([*start, 7]) == affinity_key([*start, 8, 9])
    assert affinity_key([*start[:-1], 7]) != affinity_key(start)
    assert affinity_key(start, b"x") != affinity_key(start)
    assert affinity_key([2**32 - 1])


def test_without_workers_there_is_none() -> None:
    assert choose_worker({}, b"k") is None


def test_keys_are_spread_evenly_and_each_goes_to_its_own() -> None:
    keys = [affinity_key([number]) for number in range(600)]
    chosen = [choose_worker(idle(*NAMES), key) for key in keys]
    assert chosen == [choose_worker(idle(*reversed(NAMES)), key) for key in keys]
    assert all(150 < count < 250 for count in Counter(chosen).values())


def test_when_a_worker_leaves_only_its_own_keys_move() -> None:
    for number in range(200):
        key = affinity_key([number])
        before = choose_worker(idle(*NAMES), key)
        after = choose_worker(idle(*NAMES[:2]), key)
        assert after == before or before == NAMES[2]


@given(st.lists(st.integers(0, 50), min_size=2, max_size=5), st.binary(min_size=1, max_size=16))
def test_the_preferred_one_gives_way_where_it_has_clearly_more_to_do(
    loads: list[int], key: bytes
) -> None:
    by_name = {f"w{place}": load for place, load in enumerate(loads)}
    preferred = choose_worker(dict.fromkeys(by_name, 0), key)
    chosen = choose_worker(by_name, key)
    assert preferred is not None
    assert chosen is not None
    least = min(loads)
    if by_name[preferred] <= least + 2 + least / 4:
        assert chosen == preferred
    else:
        assert by_name[chosen] == least
