import asyncio
from contextlib import aclosing

import pytest

from draft_service.drafting import Failed, Reach, RoundDone, RoundTimes, Totals
from draft_service.streams import TOLD_TOGETHER, Streams
from outrider.protocol.decoding import FinishReason
from outrider.protocol.errors import InvalidField, NoCapacity, WorkerUnavailable
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import stream

TIMES = RoundTimes(0.0, 0.0, 0, 0, 0, 0)
TREE = RoundTree(TokenTree.root_only(0), ())


class Runner:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.added: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.read_rounds: list[int] = []

    def add(self, drafting) -> None:
        self.added.append(drafting.session_id)

    def read(self, session_id, rounds) -> None:
        self.read_rounds.append(rounds)

    def cancel(self, session_id) -> None:
        self.cancelled.append(session_id)


def done(session_id: bytes, token: int, reason: FinishReason | None = None) -> RoundDone:
    return RoundDone(session_id, 0, 0, [token], (), (), Reach(0, 0), TREE, reason, TIMES, Totals())


@pytest.mark.asyncio
async def test_a_stream_hears_its_own_rounds_and_ends_with_the_last():
    streams, runner = Streams(asyncio.get_running_loop()), Runner()
    one, other = stream("one", [1]), stream("other", [1])
    heard: list[int] = []
    async with aclosing(streams.run(runner, one)) as rounds:
        reading = asyncio.ensure_future(anext(rounds))
        await asyncio.sleep(0)
        streams.deliver([done(other.session_id, 9), done(one.session_id, 5)])
        heard += (await reading).token_ids
        streams.deliver([done(one.session_id, 6, FinishReason.STOP)])
        async for round_done in rounds:
            heard += round_done.token_ids
    assert heard == [5, 6]
    assert len(streams) == 0
    assert runner.cancelled == [one.session_id]


@pytest.mark.asyncio
async def test_the_worker_hears_what_was_read_a_few_rounds_at_a_time():
    streams, runner = Streams(asyncio.get_running_loop()), Runner()
    one = stream("one", [1])
    async with aclosing(streams.run(runner, one)) as rounds:
        reading = asyncio.ensure_future(anext(rounds))
        await asyncio.sleep(0)
        streams.deliver([done(one.session_id, token) for token in range(10)])
        await reading
        for _ in range(TOLD_TOGETHER - 1):
            assert runner.read_rounds == []
            await anext(rounds)
        assert runner.read_rounds == []  # the last one is still being written
        await anext(rounds)
        assert runner.read_rounds == [TOLD_TOGETHER]


@pytest.mark.asyncio
async def test_closing_early_cancels_on_the_worker():
    streams, runner = Streams(asyncio.get_running_loop()), Runner()
    drafting = stream("one", [1])
    rounds = streams.run(runner, drafting)
    reading = asyncio.ensure_future(anext(rounds))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert runner.cancelled == [drafting.session_id]
    assert len(streams) == 0


@pytest.mark.asyncio
async def test_a_failure_is_raised_where_the_stream_is_read():
    streams, runner = Streams(asyncio.get_running_loop()), Runner()
    drafting = stream("one", [1])
    rounds = streams.run(runner, drafting)
    reading = asyncio.ensure_future(anext(rounds))
    await asyncio.sleep(0)
    streams.deliver([Failed(drafting.session_id, NoCapacity("full"))])
    with pytest.raises(NoCapacity):
        await reading


@pytest.mark.asyncio
async def test_an_id_in_use_is_refused_and_its_stream_lives():
    streams, runner = Streams(asyncio.get_running_loop()), Runner()
    drafting = stream("one", [1])
    rounds = streams.run(runner, drafting)
    reading = asyncio.ensure_future(anext(rounds))
    await asyncio.sleep(0)
    with pytest.raises(InvalidField, match="session_id"):
        await anext(streams.run(runner, stream("one", [1])))
    streams.fail_all()
    with pytest.raises(WorkerUnavailable):
        await reading
    assert runner.added == [drafting.session_id]
