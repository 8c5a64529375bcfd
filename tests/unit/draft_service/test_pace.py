"""Whether asking a draft network pays: the faster way is kept, the other tried ever more rarely."""

import random
from itertools import groupby, pairwise

import pytest

from draft_service.drafters.pace import FIRST_STAY, LONGEST_STAY, SPELL_ROUNDS, Pace

SPELL = 1 + SPELL_ROUNDS


def run(pace: Pace, rounds: int, asked_rate: float, rested_rate: float, sessions: int = 1):
    """Rounds of some sessions that go on so fast with the network and without; the ways taken."""
    ways = []
    for _ in range(rounds):
        asks = pace.asks(sessions)
        ways.append(asks)
        for _ in range(sessions):
            pace.note(sessions, asks, 2, 2 / (asked_rate if asks else rested_rate))
    return ways


def test_it_begins_by_asking_and_then_tries_both():
    ways = run(Pace(), 2 * SPELL, 10.0, 20.0)
    assert ways == [True] * SPELL + [False] * SPELL


@pytest.mark.parametrize(("asked", "rested", "kept"), [(20.0, 10.0, True), (10.0, 20.0, False)])
@pytest.mark.parametrize("sessions", [1, 16])
def test_the_faster_way_is_kept(asked, rested, kept, sessions):
    ways = run(Pace(), 1200 * SPELL, asked, rested, sessions)
    late = ways[200 * SPELL :]
    assert late.count(kept) > 0.97 * len(late)
    assert (not kept) in late, "the other one is tried from time to time"


@pytest.mark.parametrize("kept", [True, False])
def test_a_way_that_loses_is_tried_ever_more_rarely(kept):
    rates = (20.0, 10.0) if kept else (10.0, 20.0)
    ways = run(Pace(), 2000 * SPELL, *rates)
    trials = [
        place
        for place, (was, is_) in enumerate(pairwise(ways))
        if place and was is kept and is_ is not kept
    ]
    gaps = [later - earlier for earlier, later in pairwise(trials)]
    assert gaps[0] > FIRST_STAY[kept] * SPELL
    assert gaps == sorted(gaps)
    assert max(gaps) <= (LONGEST_STAY[kept] + 1) * SPELL


def test_a_network_that_rests_is_not_tried_because_all_became_slower():
    pace = Pace()
    run(pace, 4 * SPELL, 10.0, 20.0)
    assert not any(run(pace, 20 * SPELL, 2.0, 5.0)), "texts are longer now, whoever drafts"


@pytest.mark.parametrize("sessions", [1, 8])
def test_a_trial_that_clearly_loses_is_cut_short(sessions):
    ways = run(Pace(), 100 * SPELL, 20.0, 10.0, sessions)
    trials = [len(list(group)) for asks, group in groupby(ways) if not asks]
    assert set(trials) == {2}
    close = run(Pace(), 100 * SPELL, 20.0, 19.0, sessions)
    assert {len(list(group)) for asks, group in groupby(close) if not asks} == {SPELL}


def test_it_turns_round_when_the_load_does():
    pace = Pace()
    run(pace, 100 * SPELL, 20.0, 10.0)
    ways = run(pace, 400 * SPELL, 10.0, 20.0)
    assert ways[-50 * SPELL :].count(True) < 10 * SPELL


def test_loads_are_judged_apart():
    pace = Pace()
    run(pace, 200 * SPELL, 10.0, 20.0, sessions=16)
    assert not pace.asks(16)
    assert not pace.asks(9), "like 16"
    assert not pace.asks(1), "it begins like the nearest one that is known"
    assert all(run(pace, 10 * SPELL, 20.0, 10.0, sessions=1)[3 * SPELL :])
    assert not pace.asks(16)


def test_where_fewer_let_it_rest_more_of_them_try_it_as_rarely():
    pace = Pace()
    run(pace, 300 * SPELL, 10.0, 20.0, sessions=4)
    ways = run(pace, 600 * SPELL, 10.0, 20.0, sessions=16)
    assert ways.index(True) == LONGEST_STAY[False] * SPELL


def test_fewer_soon_try_what_rests_for_more_of_them():
    pace = Pace()
    run(pace, 200 * SPELL, 10.0, 20.0, sessions=4)
    assert run(pace, 9 * SPELL, 20.0, 10.0, sessions=1).index(True) == SPELL
    assert pace.asks(1)


def test_a_trial_of_the_network_is_told_from_its_everyday():
    pace, tries = Pace(), []
    for _ in range(40):
        tries.append((pace.asks(2), pace.tries(2)))
        run(pace, SPELL, 10.0, 20.0, sessions=2)
    assert tries[0] == (True, False), "nothing is known: this is no trial"
    assert (True, True) in tries
    assert (False, True) not in tries


def test_rounds_that_began_before_a_spell_do_not_count():
    pace = Pace()
    run(pace, SPELL, 10.0, 20.0)
    for _ in range(100):
        pace.note(1, True, 2, 1e-9)
    assert run(pace, 2 * SPELL, 10.0, 20.0)[-1] is False


def test_rounds_that_met_prefill_drown_nothing():
    """Prompts of others are read in every other round with the network, as it falls."""
    pace, ways = Pace(), []
    for number in range(400 * SPELL):
        ways.append(pace.asks(4))
        meets = ways[-1] and number % 2 == 1
        for _ in range(4):
            pace.note(4, ways[-1], 2, (1.0 if ways[-1] else 1.2) + 5.0 * meets, meets)
    assert ways.count(True) > 0.9 * len(ways)


@pytest.mark.parametrize(("share", "asks_late"), [(0.95, False), (0.3, True)])
def test_where_prefill_hardly_ends_its_rounds_count(share, asks_late):
    """With the network they take longer; those without prefill take as long either way."""
    pace, ways, rng = Pace(), [], random.Random(1)
    for _ in range(200 * SPELL):
        ways.append(pace.asks(4))
        meets = rng.random() < share
        for _ in range(4):
            seconds = (9.0 if ways[-1] else 4.0) if meets else 1.0
            pace.note(4, ways[-1], 2, seconds, meets)
    late = ways[-100 * SPELL :]
    assert late.count(asks_late) > 0.85 * len(late)


def test_without_a_clock_that_moves_the_network_is_asked():
    pace = Pace()
    for _ in range(100):
        assert pace.asks(2)
        pace.note(2, True, 1, 0.0)
