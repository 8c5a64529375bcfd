"""Whether asking a draft network pays: the faster way is kept, the other tried ever more rarely."""

import math
import random
from itertools import groupby, pairwise

import pytest

from draft_service.drafters.pace import (
    FEWEST_ROUNDS,
    FIRST_STAY,
    LONGEST_STAY,
    SPELL_ROUNDS,
    WINS,
    Pace,
)


def spell(sessions: int) -> int:
    """Rounds of each session in a whole spell."""
    return 1 + max(SPELL_ROUNDS, math.ceil(FEWEST_ROUNDS / sessions))


def run(pace: Pace, spells: int, asked_rate: float, rested_rate: float, sessions: int = 1):
    """Spells of some sessions that go on so fast with the network and without; the ways taken."""
    ways = []
    for _ in range(spells * spell(sessions)):
        asks = pace.asks(sessions)
        ways.append(asks)
        for _ in range(sessions):
            pace.note(sessions, asks, 2, 2 / (asked_rate if asks else rested_rate))
    return ways


@pytest.mark.parametrize("sessions", [1, 4, 16])
def test_it_begins_by_asking_and_then_tries_both(sessions):
    ways = run(Pace(), 2, 10.0, 20.0, sessions)
    assert ways == [True] * spell(sessions) + [False] * spell(sessions)


@pytest.mark.parametrize(("asked", "rested", "kept"), [(20.0, 10.0, True), (10.0, 20.0, False)])
@pytest.mark.parametrize("sessions", [1, 16])
def test_the_faster_way_is_kept(asked, rested, kept, sessions):
    ways = run(Pace(), 1200, asked, rested, sessions)
    late = ways[200 * spell(sessions) :]
    assert late.count(kept) > 0.97 * len(late)
    assert (not kept) in late, "the other one is tried from time to time"


@pytest.mark.parametrize("sessions", [1, 2, 8])
def test_chance_does_not_decide(sessions):
    """Rounds commit one to seven tokens, and a third less on average without the network."""
    pace, rng, ways = Pace(), random.Random(sessions), []
    for _ in range(400 * spell(sessions)):
        ways.append(pace.asks(sessions))
        for _ in range(sessions):
            tokens = rng.choice((1, 1, 2, 3, 7)) if ways[-1] else rng.choice((1, 1, 1, 2, 4))
            pace.note(sessions, ways[-1], tokens, 0.03)
    assert ways.count(True) > 0.85 * len(ways)


@pytest.mark.parametrize("kept", [True, False])
def test_a_way_that_loses_is_tried_ever_more_rarely(kept):
    rates = (20.0, 10.0) if kept else (10.0, 20.0)
    ways = run(Pace(), 2000, *rates, sessions=16)
    trials = [
        place
        for place, (was, is_) in enumerate(pairwise(ways))
        if place and was is kept and is_ is not kept
    ]
    gaps = [later - earlier for earlier, later in pairwise(trials)]
    assert gaps[0] > FIRST_STAY[kept] * spell(16)
    assert gaps == sorted(gaps)
    assert max(gaps) <= (LONGEST_STAY[kept] + 1) * spell(16)


def test_a_network_that_rests_is_not_tried_because_all_became_slower():
    pace = Pace()
    run(pace, 4, 10.0, 20.0)
    assert not any(run(pace, 20, 2.0, 5.0)), "texts are longer now, whoever drafts"


@pytest.mark.parametrize("sessions", [1, 8, 32])
def test_a_trial_that_clearly_loses_is_cut_short(sessions):
    ways = run(Pace(), 100, 20.0, 10.0, sessions)
    trials = [len(list(group)) for asks, group in groupby(ways) if not asks]
    assert set(trials) == {1 + max(1, FEWEST_ROUNDS // 2 // sessions)}
    close = run(Pace(), 100, 20.0, 19.0, sessions)
    whole = {len(list(group)) for asks, group in groupby(close) if not asks}
    assert whole == {spell(sessions)}


def test_it_turns_round_when_the_load_does():
    pace = Pace()
    run(pace, 100, 20.0, 10.0)
    ways = run(pace, 400, 10.0, 20.0)
    assert ways[-50 * spell(1) :].count(True) < 10 * spell(1)


def test_loads_are_judged_apart():
    pace = Pace()
    run(pace, 200, 10.0, 20.0, sessions=16)
    assert not pace.asks(16)
    assert not pace.asks(9), "like 16"
    assert not pace.asks(1), "it begins like the nearest one that is known"
    assert all(run(pace, 10, 20.0, 10.0, sessions=1)[(1 + WINS) * spell(1) :])
    assert not pace.asks(16)


def test_where_fewer_let_it_rest_more_of_them_try_it_as_rarely():
    pace = Pace()
    run(pace, 300, 10.0, 20.0, sessions=4)
    ways = run(pace, 600, 10.0, 20.0, sessions=16)
    assert ways.index(True) == LONGEST_STAY[False] * spell(16)


def test_fewer_soon_try_what_rests_for_more_of_them():
    pace = Pace()
    run(pace, 200, 10.0, 20.0, sessions=4)
    assert run(pace, 9, 20.0, 10.0, sessions=1).index(True) == spell(1)
    assert pace.asks(1)


def test_a_trial_of_the_network_is_told_from_its_everyday():
    pace, tries = Pace(), []
    for _ in range(40):
        tries.append((pace.asks(2), pace.tries(2)))
        run(pace, 1, 10.0, 20.0, sessions=2)
    assert tries[0] == (True, False), "nothing is known: this is no trial"
    assert (True, True) in tries
    assert (False, True) not in tries


def test_rounds_that_began_before_a_spell_do_not_count():
    pace = Pace()
    run(pace, 1, 10.0, 20.0)
    for _ in range(100):
        pace.note(1, True, 2, 1e-9)
    assert run(pace, 2, 10.0, 20.0)[-1] is False


def test_rounds_that_met_prefill_drown_nothing():
    """Prompts of others are read in every other round with the network, as it falls."""
    pace, ways = Pace(), []
    for number in range(400 * spell(4)):
        ways.append(pace.asks(4))
        meets = ways[-1] and number % 2 == 1
        for _ in range(4):
            pace.note(4, ways[-1], 2, (1.0 if ways[-1] else 1.2) + 5.0 * meets, meets)
    assert ways.count(True) > 0.9 * len(ways)


@pytest.mark.parametrize(("share", "asks_late"), [(0.95, False), (0.3, True)])
def test_where_prefill_hardly_ends_its_rounds_count(share, asks_late):
    """With the network they take longer; those without prefill take as long either way."""
    pace, ways, rng = Pace(), [], random.Random(1)
    for _ in range(200 * spell(4)):
        ways.append(pace.asks(4))
        meets = rng.random() < share
        for _ in range(4):
            seconds = (9.0 if ways[-1] else 4.0) if meets else 1.0
            pace.note(4, ways[-1], 2, seconds, meets)
    late = ways[-100 * spell(4) :]
    assert late.count(asks_late) > 0.85 * len(late)


def test_without_a_clock_that_moves_the_network_is_asked():
    pace = Pace()
    for _ in range(100):
        assert pace.asks(2)
        pace.note(2, True, 1, 0.0)
