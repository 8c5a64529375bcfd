"""What the draft engine makes of arriving features; whole conversations are tested elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from draft_service.engine import DraftEngine, TreeLimits
from draft_service.stream_features import MAX_LOSSES
from outrider.protocol import messages as m
from outrider.protocol.features import TensorType
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import identity, stream
from tests.fakes.feature_drafter import LAYOUT, FeatureDrafter
from tests.fakes.random_drafter import RandomDrafter

PROMPT = [1, 2, 3, 4]
ID = stream("s", PROMPT).session_id
TREE = TokenTree((4, 5, 6, 7), (-1, 0, 0, 1))  # possible rows: three committed, root and two more


class Stage:
    """A draft engine with one stream, whose tree is outstanding."""

    def __init__(self) -> None:
        self.drafter = FeatureDrafter(1)
        drafters = {"head": self.drafter, "any": RandomDrafter(1)}
        limits = TreeLimits(max_nodes=16, max_depth=8, parallel_degree=4)
        self.engine = DraftEngine(m.Hello(b"d" * 16), 10.0, drafters, limits, 30.0, LAYOUT)
        self.engine.fleet.follow(["verify"])
        self.engine.handle(0, identity(), 0.0)

    def start(self, method: str = "head") -> None:
        self.engine.add(stream("s", PROMPT, method=method))
        self.propose(TREE)

    def propose(self, tree: TokenTree) -> None:
        (batch,) = self.engine.ready().values()
        self.engine.propose(batch, [tree], 0.0, 0.0)

    def hear(self, *messages: m.Message) -> None:
        for message in messages:
            self.engine.handle(0, message, 0.0)

    def opened(self) -> list[m.OpenSession]:
        return [one for _, one in self.engine.outbox if isinstance(one, m.OpenSession)]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.start()
    return stage


def rows(first_row: int, row_count: int, epoch: int = 0) -> m.FeatureRows:
    data = np.zeros((row_count, LAYOUT.row_size), "<f4").tobytes()
    return m.FeatureRows(ID, epoch, first_row, row_count, LAYOUT.row_size, TensorType.FLOAT32, data)


def verdict(*accepted: int, bonus: int = 0, round: int = 0, epoch: int = 0) -> m.Verdict:
    return m.Verdict(ID, epoch, round, accepted, bonus)


def test_the_hello_names_the_layers_of_the_head(stage):
    stage.engine.fleet.links[0].lost()
    stage.engine.tick(1.0)
    hello = next(one for _, one in stage.engine.outbox if isinstance(one, m.Hello))
    assert hello.feature_layers == LAYOUT.feature_layers


def test_a_placement_asks_for_the_rows_that_the_drafter_lacks(stage):
    stage.hear(rows(0, 2))
    stage.engine.handle(0, m.Heartbeat(b"another boot", 1), 0.0)
    stage.engine.handle(0, identity(boot=b"w" * 16), 0.0)
    stage.engine.tick(0.0)
    assert [one.features_from for one in stage.opened()] == [0, 2]


def test_a_method_without_features_asks_for_none_and_takes_none():
    stage = Stage()
    stage.start("any")
    stage.hear(rows(0, 2))
    assert [one.features_from for one in stage.opened()] == [None]
    assert stage.engine.stale_messages == 1


def test_prefilled_rows_reach_the_drafter_before_any_verdict(stage):
    stage.hear(rows(0, 2), rows(2, 1))
    assert len(stage.drafter.taken[ID]) == 3


def test_rows_of_a_round_reach_it_with_the_verdict_and_before_its_tokens(stage):
    stage.hear(rows(0, 3), rows(3, 2))
    assert len(stage.drafter.taken[ID]) == 3, "nothing is known of the round yet"
    stage.hear(verdict(1))
    assert len(stage.drafter.taken[ID]) == 5
    assert stage.drafter.lacking[ID] == []
    assert stage.engine.stale_messages == 0


@pytest.mark.parametrize(
    "bad",
    [
        rows(1, 1),
        rows(0, 7),
        rows(0, 1, epoch=1),
        replace(rows(0, 1), session_id=b"unknown session!"),
        replace(rows(0, 3), row_count=9, row_size=LAYOUT.hidden_size),
    ],
    ids=["gap", "beyond the tree", "epoch", "session", "row size"],
)
def test_stale_and_malformed_features_are_dropped_and_counted(stage, bad):
    stage.hear(bad)
    assert stage.engine.stale_messages == 1
    assert stage.drafter.taken[ID] == []
    stage.hear(rows(0, 6))
    assert stage.engine.stale_messages == 1


def test_a_repeated_answer_is_taken_once(stage):
    answer = (rows(0, 3), rows(3, 2), verdict(1))
    stage.hear(*answer, *answer)
    assert len(stage.drafter.taken[ID]) == 5
    assert stage.engine.stale_messages == 3


def test_lost_features_are_asked_for_again_on_the_same_worker(stage):
    stage.hear(rows(0, 3), verdict(1))
    again = stage.opened()[-1]
    assert (again.epoch, again.features_from, again.token_ids) == (1, 3, (1, 2, 3, 4, 5, 0))
    stage.propose(TokenTree.root_only(0))
    stage.hear(rows(3, 2, epoch=1), rows(5, 1, epoch=1), verdict(epoch=1))
    assert len(stage.drafter.taken[ID]) == 6
    assert len(stage.opened()) == 2


def test_a_worker_that_is_leaving_is_not_asked_again(stage):
    stage.hear(m.GoAway("upgrade"), rows(0, 3), verdict(1))
    assert len(stage.opened()) == 1
    stage.hear(rows(3, 2))
    assert len(stage.drafter.taken[ID]) == 3, "the stream goes on without features"
    assert stage.engine.session_count == 1


def test_after_some_losses_the_stream_goes_on_without_features(stage):
    for epoch in range(MAX_LOSSES + 1):
        stage.hear(verdict(epoch=epoch))
        stage.propose(TokenTree.root_only(0))
    assert [one.epoch for one in stage.opened()] == list(range(MAX_LOSSES + 1))
    stage.hear(verdict(epoch=MAX_LOSSES, round=1))
    assert len(stage.opened()) == MAX_LOSSES + 1
    assert stage.engine.session_count == 1


def test_a_drafter_that_wants_no_more_is_not_waited_for(stage):
    stage.drafter.features_from = lambda session_id: None  # its head was dropped
    stage.hear(verdict(1))
    assert len(stage.opened()) == 1
