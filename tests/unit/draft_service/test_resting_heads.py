"""A head rests while streams go on faster without it, and is tried with new ones."""

import itertools
from typing import Any

from draft_service.company import Company
from draft_service.drafters.network_trees import PASS_ROWS
from draft_service.drafters.network_watch import DropReason
from tests.fakes.table_head import features_of
from tests.unit.draft_service.head_stage import Clock, Stage


def test_a_head_that_costs_more_than_it_saves_rests_and_is_ready_when_asked_again():
    """Each pass takes a second here, and a round without one hardly any time."""
    stage = Stage(clock=Clock(1.0))
    a = stage.open("a")
    sizes = [len(stage.round(a)[0]) for _ in range(1600)]
    first = sizes.index(1, 1)  # the first round of all has no features yet
    assert sizes[first:].count(1) > 0.9 * len(sizes[first:])
    assert max(sizes[first + 100 :]) > 1, "it is tried again, and has not forgotten"
    assert PASS_ROWS in stage.network.passes, "rows that wait are run together"
    assert len(stage.network.passes) < 0.4 * len(sizes)
    assert stage.drops == []


def test_sessions_that_begin_while_the_head_rests_cost_it_nothing_and_it_is_tried_with_new_ones():
    """As above, with streams of thirty rounds, four at a time."""
    stage = Stage(clock=Clock(1.0))
    names = itertools.count()
    features_wanted, sizes, passes, asked_few = [], [], [], 0
    lanes: list[list[Any]] = [[b"", 0], [b"", 8], [b"", 16], [b"", 24]]
    for _ in range(2500):
        for lane in lanes:
            if lane[1] % 30 == 0 or not lane[0]:
                stage.drafter.close(lane[0])
                lane[0] = stage.open(f"{next(names)}")
                features_wanted.append(stage.drafter.features_from(lane[0]) is not None)
            lane[1] += 1
        before = len(stage.network.passes)
        with_head = sum(stage.drafter.features_from(lane[0]) is not None for lane in lanes)
        sizes += [len(tree) for tree in stage.round(*(lane[0] for lane in lanes))]
        passes.append(len(stage.network.passes) - before)
        asked_few += with_head == 1 and passes[-1] > 0
    assert all(features_wanted[:4]), "nothing is known yet"
    late = features_wanted[20:]
    assert 0 < sum(late) < 0.1 * len(late), "most begin without; some for a trial"
    assert sum(passes[1250:]) < 0.3 * 1250
    assert not asked_few, "a trial waits for the second one of four"
    assert {reason for _, reason in stage.drops} == {DropReason.RESTING}


def test_the_first_of_many_that_come_back_begin_without_a_head_that_rests_for_many():
    """Each of the fast rounds of one stream pays for the head; those of four do not."""
    clock = Clock()
    stage = Stage(clock=clock)

    def rounds(count: int, *session_ids: bytes) -> None:
        for _ in range(count):
            before = len(stage.network.passes)
            stage.round(*session_ids)
            asked = len(stage.network.passes) > before
            clock.now += 0.01 + 0.1 * (asked and len(session_ids) > 1)

    four = [stage.open(f"{number}") for number in range(4)]
    rounds(60, *four)
    for session_id in four:
        stage.drafter.close(session_id)
    assert stage.drafter.features_from(stage.open("soon")) is None
    clock.now += 11.0
    stage.drafter.close(b"soon".ljust(16, b"."))
    assert stage.drafter.features_from(stage.open("later")) == 0


def test_a_long_prompt_is_not_read_any_more_when_its_features_come_while_the_head_rests():
    stage = Stage(clock=Clock(1.0))
    long = stage.open("long", 3 * PASS_ROWS)
    assert stage.drafter.features_from(long) == 0
    others = [stage.open(f"{number}") for number in range(3)]
    for _ in range(20):
        stage.round(*others)
    assert len(stage.round(*others)[0]) == 1, "it rests"
    passes, rows = len(stage.network.passes), stage.extents.in_use
    stage.drafter.take_features(features_of(long, stage.texts[long], 0, 3 * PASS_ROWS - 1))
    assert stage.drafter.features_from(long) is None
    assert len(stage.network.passes) == passes
    assert stage.extents.in_use <= rows
    assert len(stage.round(long)[0]) == 1
    assert stage.drops == [(long, DropReason.RESTING)]


def test_a_head_that_became_worth_its_while_is_found_out_by_new_sessions():
    clock = Clock(1.0)
    stage = Stage(clock=clock)
    first = stage.open("first")
    for _ in range(800):
        stage.round(first)
    stage.drafter.close(first)
    clock.step = 1e-3  # from now on it is fast, and a round without it takes as long as with it
    counts = []
    for number in range(200):
        a = stage.open(f"{number}")
        for _ in range(20):
            clock.now += 1.0
            stage.round(a)
        counts.append(len(stage.texts[a]))
        stage.drafter.close(a)
    assert counts[0] == 5 + 20, "a token a round: the first one began without"
    assert min(counts[-20:]) > 1.5 * counts[0]
    assert {reason for _, reason in stage.drops} == {DropReason.RESTING}


def test_a_head_that_is_measured_does_not_rest():
    stage = Stage(clock=Clock(1.0))
    a = stage.open("a")
    sizes = [len(stage.round(a, is_full=True)[0]) for _ in range(60)]
    assert min(sizes[1:]) > 1, "the first round has no features yet"


def test_rounds_that_met_prefill_do_not_make_a_head_rest():
    """Each long prompt of others falls into a round with the head, and is not its fault."""
    clock = Clock(1e-6)
    stage = Stage(clock=clock)
    a = stage.open("a")
    size, asked = 1, 0
    for number in range(300):
        has_prefill = number % 2 == 1 and size > 1
        clock.now += 1.0 + 30.0 * has_prefill
        (tree,) = stage.round(a, company=Company(has_prefill=has_prefill))
        size = len(tree)
        asked += size > 1
    assert asked > 250
