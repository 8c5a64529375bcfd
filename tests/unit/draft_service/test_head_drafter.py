"""Drafting with a head that is a table: bookkeeping, limits, and what goes wrong."""

import math
import random

import pytest

from draft_service.drafters.head import MAX_ROUNDS_BEHIND
from draft_service.drafters.network_trees import PASS_ROWS
from draft_service.drafters.network_watch import LATE_WINDOWS, WINDOW, DropReason
from draft_service.drafters.ngram import NgramDrafter
from outrider.protocol.decoding import Sampling
from outrider.protocol.features import TensorType
from outrider.protocol.messages import FeatureRows
from outrider.protocol.token_tree import TokenTree
from tests.fakes.table_head import LAYOUT, features_of
from tests.fakes.table_network import GuessesOf
from tests.unit.draft_service import head_stage
from tests.unit.draft_service.head_stage import (
    DEAR,
    VOCAB,
    Clock,
    Stage,
    bad_guesses,
    budget,
    good_guesses,
)


def test_the_first_round_has_no_features_and_the_second_a_tree():
    stage = Stage()
    a = stage.open("a")
    assert stage.drafter.features_from(a) == 0
    assert stage.round(a) == [TokenTree.root_only(stage.texts[a][4])]
    (tree,) = stage.round(a)
    assert len(tree) == 12
    assert max(tree.depths()) > 2


def test_a_head_that_knows_the_target_commits_more_than_one_token_a_round():
    stage = Stage()
    a = stage.open("a")
    for _ in range(40):
        stage.round(a)
    assert len(stage.texts[a]) - 5 > 2 * 40
    assert stage.drops == []


def test_many_sessions_share_their_passes_and_are_drafted_as_if_alone():
    """Until they learn from one another."""
    together, lengths = Stage(), {"a": 4, "b": 5, "c": 6}
    ids = [together.open(name, length) for name, length in lengths.items()]
    together.round(*ids)
    trees = together.round(*ids)
    for tree, (name, length) in zip(trees, lengths.items(), strict=True):
        alone = Stage()
        own = alone.open(name, length)
        alone.round(own)
        assert alone.round(own) == [tree]
        assert len(alone.network.passes) == len(together.network.passes)


def test_sessions_that_come_and_go_leave_nothing_behind():
    stage, rng = Stage(), random.Random(3)
    open_ids: list[bytes] = []
    for turn in range(60):
        if rng.random() < 0.4:
            open_ids.append(stage.open(f"s{turn}", rng.randrange(1, 90)))
        if open_ids and rng.random() < 0.3:
            stage.drafter.close(open_ids.pop(rng.randrange(len(open_ids))))
        if open_ids:
            stage.round(*rng.sample(open_ids, rng.randrange(1, len(open_ids) + 1)))
    for session_id in open_ids:
        stage.drafter.close(session_id)
        stage.drafter.close(session_id)
    assert stage.extents.in_use == 0
    assert stage.drops == []


def test_a_long_prompt_is_run_in_passes_of_limited_size():
    """B59: as it arrives, and none of it is lost."""
    stage = Stage()
    a = stage.open("a", 3 * PASS_ROWS + 7)
    stage.round(a)
    assert stage.network.passes == [PASS_ROWS] * 3
    (tree,) = stage.round(a)
    assert stage.network.passes[3] == 7
    assert len(tree) > 1


def test_prompts_that_do_not_fit_one_pass_wait_a_round_without_the_head():
    stage = Stage()
    ids = [stage.open(name, 101) for name in "abc"]
    stage.round(*ids)
    trees = stage.round(*ids)
    assert stage.network.passes[0] == PASS_ROWS
    assert [len(tree) > 1 for tree in trees] == [True, True, False]
    assert all(len(tree) > 1 for tree in stage.round(*ids))


def test_a_session_placed_anew_asks_for_the_rows_it_lacks():
    stage = Stage()
    a = stage.open("a", 9)
    stage.round(a)
    assert stage.drafter.features_from(a) == 9  # one token was committed, which is the root now
    trees = stage.drafter.draft([a], [budget()])
    # Features of a round whose verdict is lost: those of uncommitted tokens are asked for again.
    text = [*stage.texts[a], 1, 2]
    stage.drafter.take_features(features_of(a, text, 9, 11))
    assert stage.drafter.features_from(a) == 9
    assert stage.drafter.draft([a], [budget()]) == trees, "the same tree once more"
    stage.settle(a, trees[0])
    assert len(stage.round(a)[0]) > 1


def test_lost_features_are_waited_for_and_then_given_up():
    stage = Stage()
    a = stage.open("a")
    for _ in range(MAX_ROUNDS_BEHIND):
        (tree,) = stage.drafter.draft([a], [budget()])
        stage.settle(a, tree, has_features=False)
    assert stage.drops == []
    stage.round(a)
    assert len(stage.round(a)[0]) > 1, "they came after all"
    for _ in range(MAX_ROUNDS_BEHIND + 1):
        (tree,) = stage.drafter.draft([a], [budget()])
        stage.settle(a, tree, has_features=False)
    assert stage.drops == [(a, DropReason.MISSING_FEATURES)]
    assert stage.drafter.features_from(a) is None
    assert stage.extents.in_use == 0


def test_features_with_a_gap_or_of_another_width_are_refused():
    stage = Stage()
    a, b = stage.open("a"), stage.open("b")
    stage.drafter.take_features(features_of(a, stage.texts[a], 1, 3))
    size = LAYOUT.row_size + 1
    wide = FeatureRows(b, 0, 0, 1, size, TensorType.FLOAT32, bytes(4 * size))
    stage.drafter.take_features(wide)
    assert stage.drops == [(a, DropReason.MISSING_FEATURES), (b, DropReason.WRONG_FEATURES)]
    stage.drafter.take_features(features_of(a, stage.texts[a], 0, 3))
    stage.drafter.take_features(features_of(b"?" * 16, [1, 2], 0, 1))
    trees = stage.drafter.draft([a, b], [budget()] * 2)
    assert [len(tree) for tree in trees] == [1, 1]
    assert len(stage.drops) == 2, "each is told once"


@pytest.mark.parametrize("depth", [0, 1])
def test_a_head_that_gives_no_numbers_is_dropped_and_the_others_keep_theirs(depth):
    """B61: an empty tree where the root's guesses are not numbers, else what was good of it."""
    poisoned = 0

    def guesses_of(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
        best = good_guesses(prefix)
        is_ill = prefix[0] == poisoned and len(prefix) >= 6 + depth
        return [(token, math.nan) for token, _ in best] if is_ill else best

    stage = Stage(guesses_of)
    a, b = stage.open("a"), stage.open("b")
    poisoned = stage.texts[a][0]
    assert stage.texts[b][0] != poisoned
    stage.round(a, b)
    first, second = stage.drafter.draft([a, b], [budget()] * 2)
    assert stage.drops == [(a, DropReason.NON_FINITE)]
    assert max(first.depths()) == depth
    assert max(second.depths()) > 1
    for session_id, tree in ((a, first), (b, second)):
        stage.settle(session_id, tree)
    first, second = stage.round(a, b)
    assert first == TokenTree.root_only(first.token_ids[0])
    assert len(second) > 1


def test_an_error_in_a_pass_costs_the_head_and_no_stream():
    stage = Stage()
    a = stage.open("a")
    stage.round(a)
    stage.network.broken = RuntimeError("out of memory")
    assert len(stage.round(a)[0]) == 1
    assert stage.drops == [(a, DropReason.FAILED)]
    stage.network.broken = None
    assert len(stage.round(a)[0]) == 1
    b = stage.open("b")
    stage.round(b)
    assert len(stage.round(b)[0]) > 1, "another session has its head"


def test_an_error_while_rows_move_costs_the_head_and_no_stream(monkeypatch):
    def fail(source: range, destination: range) -> None:
        raise RuntimeError("out of memory")

    stage = Stage()
    a = stage.open("a")
    monkeypatch.setattr(stage.network, "move", fail)
    for _ in range(40):
        stage.round(a)
    assert stage.drops == [(a, DropReason.FAILED)]
    assert stage.extents.in_use == 0


def test_a_full_pool_costs_the_head_of_those_who_come_late():
    stage = Stage(slots=160)
    a, b = stage.open("a", 50), stage.open("b", 120)
    stage.round(a, b)
    trees = stage.round(a, b)
    assert [len(tree) > 1 for tree in trees] == [True, False]
    assert stage.drops == [(b, DropReason.NO_ROOM)]
    stage.drafter.close(a)
    c = stage.open("c", 100)
    stage.round(c)
    assert len(stage.round(c)[0]) > 1


def test_a_session_that_outgrows_its_rows_moves():
    stage = Stage()
    ids = [stage.open(name, 60) for name in "ab"]
    for _ in range(40):
        stage.round(*ids)
    assert all(len(stage.texts[session_id]) > 128 for session_id in ids)
    assert stage.drops == []


def test_a_useless_head_is_dropped():
    stage = Stage(bad_guesses)
    a = stage.open("a")
    for _ in range(WINDOW + 2):
        stage.round(a)
    assert stage.drops == [(a, DropReason.USELESS)]


def test_a_head_that_takes_longer_than_it_saves_is_dropped():
    """Each pass takes a second here, and a pass of the target a tenth of one."""
    slow = Stage(clock=Clock(1.0), may_rest=False)
    a = slow.open("a")
    for _ in range(LATE_WINDOWS * WINDOW + 2):
        slow.round(a)
    assert slow.drops == [(a, DropReason.LATE)]
    assert len(slow.round(a)[0]) == 1


def test_rows_that_cost_too_much_are_not_proposed():
    stage = Stage()
    a = stage.open("a")
    stage.round(a)
    assert len(stage.round(a, cost_table=DEAR)[0]) == 1


def test_a_hybrid_goes_on_with_the_text_alone():
    stage = Stage(bad_guesses, has_text=True)
    a = stage.open("a")
    stage.texts[a][:] = [1, 2, 3, 4] * 4
    stage.drafter.open(a, stage.texts[a], Sampling())
    assert len(stage.round(a)[0]) > 1, "the text needs no features"
    stage.network.broken = RuntimeError("out of memory")
    stage.round(a)
    assert stage.drops == [(a, DropReason.FAILED)]
    (tree,) = stage.drafter.draft([a], [budget()])
    text = NgramDrafter()
    text.open(a, stage.texts[a], Sampling())
    (same,) = text.draft([a], [budget()])
    assert set(same.token_ids) == set(tree.token_ids)


def committed(has_text: bool, guesses_of: GuessesOf, rounds: int = 60) -> int:
    """Tokens of a stream that repeats itself every 11 tokens."""
    stage = Stage(guesses_of, has_text)
    a = stage.open("a")
    for _ in range(rounds):
        stage.round(a, max_nodes=6, parallel_degree=2)
    return len(stage.texts[a])


def test_a_hybrid_commits_at_least_what_each_part_does(monkeypatch):
    """On streams that are half copied and half new, with a head that is right now and then."""
    phrase = [random.Random(n).randrange(VOCAB) for n in range(11)]

    def target(text) -> int:
        where = len(text) % 44
        return (
            phrase[where % 11] if where < 22 else random.Random(str(tuple(text))).randrange(VOCAB)
        )

    monkeypatch.setattr(head_stage, "next_token", target)
    hybrid = committed(True, good_guesses)
    assert hybrid >= committed(False, good_guesses)
    assert hybrid >= committed(True, bad_guesses)
