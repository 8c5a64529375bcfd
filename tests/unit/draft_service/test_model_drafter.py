"""Drafting with a draft model that is a table: bookkeeping, limits, and what goes wrong."""

import math
import random

import pytest

from draft_service.drafters.model import PREFILL_ROWS, ModelDrafter
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import LATE_WINDOWS, WINDOW, DropReason
from draft_service.drafters.row_sources import ROUND_ROWS
from draft_service.row_extents import RowExtents
from draft_service.tree_shape import DynamicShape
from outrider.protocol.decoding import Sampling
from tests.fakes.table_model import TableModel
from tests.unit.draft_service.head_stage import (
    DEAR,
    VOCAB,
    Clock,
    Stage,
    bad_guesses,
    budget,
    good_guesses,
)


class ModelStage(Stage):
    """Sessions over a table target, driven as the worker drives a drafter."""

    def __init__(
        self,
        network: TableModel | None = None,
        clock: Clock | None = None,
        may_rest: bool = True,
    ) -> None:
        super().__init__()
        self.model = network or TableModel(good_guesses)
        self.extents = RowExtents(self.model.slot_count)
        self.drafter = ModelDrafter(  # type: ignore[assignment]  # of the same protocol
            self.model,
            self.extents,
            NetworkOptions(DynamicShape(), may_rest=may_rest),
            lambda session_id, reason, text: self.drops.append((session_id, reason)),
            clock or Clock(),
        )

    def prepare(self) -> None:
        """As the worker does while nothing arrives."""
        while self.drafter.prepare():
            pass


def test_the_first_round_has_a_tree_already():
    stage = ModelStage()
    a = stage.open("a")
    assert stage.drafter.features_from(a) is None
    (tree,) = stage.round(a)
    assert len(tree) == 12
    assert max(tree.depths()) > 2
    assert stage.model.passes[0] == 5, "the prompt, root included"


def test_a_model_that_knows_the_target_commits_more_than_one_token_a_round():
    stage = ModelStage()
    a = stage.open("a")
    for _ in range(40):
        stage.round(a)
    assert len(stage.texts[a]) - 5 > 2 * 40
    assert stage.drops == []


def test_a_tree_whose_verdict_was_lost_is_drafted_once_more():
    stage = ModelStage()
    a = stage.open("a")
    trees = [stage.drafter.draft([a], [budget()]) for _ in range(2)]
    assert trees[0] == trees[1]
    stage.settle(a, trees[1][0])
    assert len(stage.round(a)[0]) > 1


def test_many_sessions_share_their_passes_and_are_drafted_as_if_alone():
    """Until they learn from one another."""
    together, lengths = ModelStage(), {"a": 4, "b": 5, "c": 6}
    ids = [together.open(name, length) for name, length in lengths.items()]
    trees = together.round(*ids)
    assert together.model.passes[0] == sum(lengths.values())
    for tree, (name, length) in zip(trees, lengths.items(), strict=True):
        alone = ModelStage()
        assert alone.round(alone.open(name, length)) == [tree]
        assert len(alone.model.passes) == len(together.model.passes)


def test_sessions_that_come_and_go_leave_nothing_behind():
    stage, rng = ModelStage(), random.Random(3)
    open_ids: list[bytes] = []
    for turn in range(60):
        if rng.random() < 0.4:
            open_ids.append(stage.open(f"s{turn}", rng.randrange(1, 180)))
        if open_ids and rng.random() < 0.3:
            stage.drafter.close(open_ids.pop(rng.randrange(len(open_ids))))
        if open_ids:
            stage.round(*rng.sample(open_ids, rng.randrange(1, len(open_ids) + 1)))
        stage.drafter.prepare()
    for session_id in open_ids:
        stage.drafter.close(session_id)
        stage.drafter.close(session_id)
    assert stage.extents.in_use == 0
    assert stage.drops == []


def test_a_long_prompt_is_run_in_pieces_and_no_tree_waits_for_it():
    """B59."""
    stage = ModelStage()
    length = 3 * PREFILL_ROWS + 7
    a, b = stage.open("a", length), stage.open("b")
    first, second = stage.round(a, b)
    assert (len(first) == 1, len(second) > 1) == (True, True)
    assert stage.model.passes[0] == 5, "nothing of the long one"
    count = len(stage.model.passes)
    assert stage.drafter.prepare()
    (tree,) = stage.round(b)
    assert len(tree) > 1, "prefill of one session holds up no other"
    stage.prepare()
    prefill = [rows for rows in stage.model.passes[count:] if rows == PREFILL_ROWS]
    assert len(prefill) == 3
    assert max(stage.model.passes) == PREFILL_ROWS
    (tree,) = stage.round(a)
    assert len(tree) > 1


def test_a_prompt_as_long_as_a_round_may_wait_for_needs_no_preparing():
    stage = ModelStage()
    a, b = stage.open("a", ROUND_ROWS), stage.open("b", ROUND_ROWS + 1)
    first, second = stage.drafter.draft([a, b], [budget()] * 2)
    assert (len(first) > 1, len(second) == 1) == (True, True)
    assert not stage.drafter.prepare()
    assert stage.model.passes[-1] == ROUND_ROWS, "all but the last row, whose guesses are wanted"


def test_a_model_that_gives_no_numbers_is_dropped_and_the_others_keep_theirs():
    """B61."""
    poisoned = 0

    def guesses_of(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
        best = good_guesses(prefix)
        return [(token, math.nan) for token, _ in best] if prefix[0] == poisoned else best

    stage = ModelStage(TableModel(guesses_of))
    a, b = stage.open("a"), stage.open("b")
    poisoned = stage.texts[a][0]
    assert stage.texts[b][0] != poisoned
    first, second = stage.round(a, b)
    assert stage.drops == [(a, DropReason.NON_FINITE)]
    assert (len(first) == 1, len(second) > 1) == (True, True)
    first, second = stage.round(a, b)
    assert (len(first) == 1, len(second) > 1) == (True, True)


@pytest.mark.parametrize("length", [5, 300])
def test_an_error_in_a_pass_costs_the_model_and_no_stream(length):
    stage = ModelStage()
    a = stage.open("a", length)
    stage.model.broken = RuntimeError("out of memory")
    assert len(stage.round(a)[0]) == 1
    stage.prepare()
    assert stage.drops == [(a, DropReason.FAILED)]
    assert stage.extents.in_use == 0
    stage.model.broken = None
    assert len(stage.round(a)[0]) == 1
    assert len(stage.round(stage.open("b"))[0]) > 1, "another session has its model"


def test_a_token_that_the_model_lacks_costs_one_session_its_model(monkeypatch):
    """Ids of the target alone: in a prompt, or among what it commits."""
    wrong = VOCAB + 7
    monkeypatch.setattr(
        "tests.unit.draft_service.head_stage.next_token",
        lambda text: wrong if len(text) == 30 else len(text) % VOCAB,
    )
    counting = TableModel(lambda prefix: [(len(prefix) % VOCAB, 0.6)], vocab_size=VOCAB)
    stage = ModelStage(counting)
    a, b = stage.open("a"), stage.open("b")
    stage.drafter.open(b"c" * 16, [1, wrong], Sampling())
    assert stage.drops == [(b"c" * 16, DropReason.UNKNOWN_TOKEN)]
    while len(stage.texts[a]) <= 30:
        stage.round(a)
    assert stage.drops[1:] == [(a, DropReason.UNKNOWN_TOKEN)]
    assert [len(tree) > 1 for tree in stage.round(a, b)] == [False, True]


def test_no_row_lies_behind_the_last_position_of_the_model():
    """B12: trees get flatter towards it, and then there are none; the table asserts."""
    stage = ModelStage(TableModel(good_guesses, context_limit=40))
    a = stage.open("a", 30)
    depths = []
    while not stage.drops:
        (tree,) = stage.drafter.draft([a], [budget()])
        room = 40 - len(stage.texts[a])
        depths.append(max(tree.depths()))
        assert depths[-1] <= room + 1
        stage.settle(a, tree)
    assert stage.drops == [(a, DropReason.TOO_LONG)]
    assert len(stage.round(a)[0]) == 1
    b = stage.open("b", 41)
    assert stage.drops[1:] == [(b, DropReason.TOO_LONG)]
    assert len(stage.round(b)[0]) == 1


def test_a_full_pool_costs_the_model_of_those_who_come_late():
    stage = ModelStage(TableModel(good_guesses, slot_count=160))
    a, b = stage.open("a", 50), stage.open("b", 120)
    stage.round(a, b)
    stage.prepare()
    assert stage.drops == [(b, DropReason.NO_ROOM)]
    stage.drafter.close(a)
    c = stage.open("c", 100)
    stage.round(c)
    stage.prepare()
    assert len(stage.round(c)[0]) > 1


def test_a_useless_model_is_dropped():
    stage = ModelStage(TableModel(bad_guesses))
    a = stage.open("a")
    for _ in range(WINDOW):
        stage.round(a)
    assert stage.drops == [(a, DropReason.USELESS)]


def test_a_model_that_takes_longer_than_it_saves_is_dropped():
    """Each pass takes a second here, and a pass of the target a tenth of one."""
    slow = ModelStage(clock=Clock(1.0), may_rest=False)
    a = slow.open("a")
    for _ in range(LATE_WINDOWS * WINDOW):
        slow.round(a)
    assert slow.drops == [(a, DropReason.LATE)]
    assert len(slow.round(a)[0]) == 1


def test_rows_that_cost_too_much_are_not_proposed():
    stage = ModelStage()
    a = stage.open("a")
    assert len(stage.round(a, cost_table=DEAR)[0]) == 1
