"""A head is measured through its own worker's streams, and a useless one is refused."""

import asyncio

import pytest

from draft_service import canary
from draft_service.canary import Canary
from draft_service.drafting import Drafting, Failed, Reach, RoundDone, RoundTimes, Totals
from draft_service.streams import Streams
from outrider.canary import UselessHead
from outrider.protocol.decoding import FinishReason
from outrider.protocol.errors import InvalidField, WorkerUnavailable
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import TokenTree

TIMES = RoundTimes(0.0, 0.0, 0, 0, 0, 0)
TREE = RoundTree(TokenTree.root_only(0), ())
PROMPTS = [[5, 6, 7], [8, 9]]


class Runner:
    """Answers each stream with one last round whose totals are given, or with an error."""

    def __init__(self, streams, offered, accepted, errors=()) -> None:
        self.streams, self.errors = streams, list(errors)
        self.offered, self.accepted = offered, accepted
        self.added: list[Drafting] = []

    def add(self, drafting) -> None:
        self.added.append(drafting)
        if self.errors:
            self.streams.deliver([Failed(drafting.session_id, self.errors.pop(0))])
            return
        drafting.totals = Totals(
            rounds=9, offered_by_depth=self.offered, accepted_by_depth=self.accepted
        )
        done = RoundDone(
            drafting.session_id, 0, 0, [1], (), (), Reach(0, 0), TREE, FinishReason.LENGTH, TIMES,
            drafting.totals,
        )  # fmt: skip
        self.streams.deliver([done])

    def read(self, session_id, rounds) -> None:
        pass

    def cancel(self, session_id) -> None:
        pass


async def measured(offered, accepted, errors=()):
    streams = Streams(asyncio.get_running_loop())
    runner = Runner(streams, offered, accepted, errors)
    one = Canary("eagle3", PROMPTS)
    await one.run(streams, runner)
    assert not one.is_pending
    return runner


@pytest.mark.asyncio
async def test_a_head_that_hits_is_let_through():
    runner = await measured((20, 8), (8, 3))
    assert [one.session.token_ids for one in runner.added] == PROMPTS
    assert {one.method for one in runner.added} == {"eagle3"}
    assert all(one.session.sampling.is_greedy for one in runner.added)
    assert all(one.wants_full_trees for one in runner.added), "whatever rows cost here and now"


@pytest.mark.asyncio
async def test_a_few_wrong_second_guesses_say_nothing():
    """Two streams with four each: a head that is right half of the time misses all by chance."""
    await measured((20, 4), (9,))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("offered", "accepted", "words"),
    [
        ((20, 1), (1,), "guessed 5%"),
        ((20,), (), "guessed 0%"),
        ((20, 15), (15, 1), "one step further only 7%"),
        ((), (), "proposed nothing"),
    ],
)
async def test_a_useless_head_is_refused_with_its_figures(offered, accepted, words):
    with pytest.raises(UselessHead, match=words):
        await measured(offered, accepted)


@pytest.mark.asyncio
async def test_it_waits_for_a_verify_worker(monkeypatch):
    monkeypatch.setattr(canary, "RETRY_S", 0.0)
    runner = await measured((20,), (8,), [WorkerUnavailable("none yet"), WorkerUnavailable("lost")])
    assert len(runner.added) == 4


@pytest.mark.asyncio
async def test_a_target_that_cannot_take_its_prompts_is_served_without_it(caplog):
    await measured((20,), (8,), [InvalidField("token_ids", "too long")])
    assert "too long" in caplog.text


@pytest.mark.asyncio
async def test_without_a_head_or_prompts_there_is_nothing_to_measure():
    streams = Streams(asyncio.get_running_loop())
    runner = Runner(streams, (), ())
    for one in (Canary(), Canary("eagle3", []), Canary("", PROMPTS)):
        assert not one.is_pending
        await one.run(streams, runner)
    assert not runner.added
    assert Canary("eagle3", PROMPTS).is_pending
