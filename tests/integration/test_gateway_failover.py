"""A stream survives its draft worker: it goes on at another one, and its client sees nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from gateway.discovery import parse_sources
from outrider.protocol.errors import InternalFailure, WorkerUnavailable
from outrider.v1 import generation_pb2
from tests.integration.gateway_stage import (
    HOST,
    ScriptedDrafting,
    Stage,
    answer,
    grpc_refusal,
    next_text,
    prompt,
    script,
    stage,
    start_drafting,
)
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of

pytestmark = pytest.mark.asyncio

GONE = WorkerUnavailable("the worker is shutting down")
PLENTY_S = 30.0


@asynccontextmanager
async def watched(on: Stage) -> AsyncIterator[None]:
    """The workers are asked again and again meanwhile, as in a real gateway."""
    watch = asyncio.create_task(on.workers.watch())
    try:
        yield
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


def text_of(messages: list[generation_pb2.GenerateResponse]) -> str:
    return "".join(message.text for message in messages)


async def rest_of(call: Any) -> str:
    """Text of all messages that are still to come."""
    text = ""
    while (message := await call.read()) is not grpc.aio.EOF:
        text += message.text
    return text


def all_requests(*workers: ScriptedDrafting) -> list[Any]:
    return sorted((one for worker in workers for one in worker.requests), key=lambda one: one.epoch)


async def test_a_lost_stream_goes_on_where_it_stopped() -> None:
    failing, healthy = script("abcdef", hold_after=2, error=GONE), script("abcdef")
    async with stage(failing, others=[healthy], failover_timeout_s=PLENTY_S) as on:
        for number in range(8):  # whichever worker is chosen first
            messages = await answer(on, prompt("x" * number + "hello"))
            assert text_of(messages) == "abcdef"
            assert [i for one in messages for i in one.token_ids] == [*ids_of("abcdef"), EOS_ID]
        assert on.metric("outrider_failovers_total") == len(failing.requests) > 0
        assert on.metric("outrider_known_draft_workers") == 2
        first, second = all_requests(failing, healthy)[0], all_requests(failing, healthy)[-1]
        assert (first.epoch, list(first.committed_token_ids)) == (0, [])
        assert (second.epoch, list(second.committed_token_ids)) == (1, ids_of("ab"))
        sessions = {one.session_id for one in failing.requests}
        assert {one.session_id for one in healthy.requests if one.epoch == 1} == sessions


async def test_the_death_of_a_worker_is_not_seen_by_its_clients() -> None:
    dying, spare = script("abcdef", hold_after=2), script("abcdef", hold_after=2)
    async with (
        stage(dying, others=[spare], failover_timeout_s=PLENTY_S) as on,
        watched(on),
    ):
        calls = [on.stub.Generate(prompt("hello" + "x" * number)) for number in range(4)]
        texts = [await next_text(call) + await next_text(call) for call in calls]
        spare.hold_after = None
        spare.release.set()
        await on.draft_server.stop(0)
        for text, call in zip(texts, calls, strict=True):
            assert text + await rest_of(call) == "abcdef"
        assert on.metric("outrider_failovers_total") > 0


async def test_a_worker_that_hangs_is_left() -> None:
    hanging, spare = script("abc", hold_after=1), script("abc", hold_after=1)
    async with (
        stage(hanging, others=[spare], failover_timeout_s=PLENTY_S, answer_timeout_s=0.2) as on,
        watched(on),
    ):
        calls = [on.stub.Generate(prompt("hello" + "x" * number)) for number in range(4)]
        texts = [await next_text(call) for call in calls]
        assert 0 < len(hanging.requests) < 4
        hanging.is_hung = True
        spare.release.set()
        spare.hold_after = None
        for text, call in zip(texts, calls, strict=True):
            assert text + await rest_of(call) == "abc"
        await hanging.wait_for_open(0)  # it hears that its streams are over when it wakes up
        assert on.metric("outrider_draft_workers") == 1
        assert on.metric("outrider_known_draft_workers") == 2


async def test_a_worker_that_is_started_again_gets_its_stream_back() -> None:
    dying = script("abcdef", hold_after=3)
    async with stage(dying, failover_timeout_s=PLENTY_S) as on, watched(on):
        call = on.stub.Generate(prompt())
        text = "".join([await next_text(call) for _ in range(3)])
        port = int(on.workers.addresses[0].rpartition(":")[2])
        await on.draft_server.stop(0)
        again = script("abcdef")
        server, _ = await start_drafting(again, port)
        try:
            assert text + await rest_of(call) == "abcdef"
        finally:
            await server.stop(0)
        assert [one.epoch for one in again.requests][-1] >= 1


async def test_without_another_worker_the_stream_fails_in_words_when_its_time_is_up() -> None:
    async with stage(script("abc", hold_after=1), failover_timeout_s=0.3) as on, watched(on):
        call = on.stub.Generate(prompt())
        await next_text(call)
        await on.draft_server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "no draft worker answers" in (caught.value.details() or "")
        assert on.metric("outrider_running_requests") == 0


async def test_a_stream_that_waits_for_a_worker_ends_when_its_client_leaves() -> None:
    async with stage(script("abc", hold_after=1), failover_timeout_s=PLENTY_S) as on, watched(on):
        call = on.stub.Generate(prompt())
        await next_text(call)
        await on.draft_server.stop(0)
        while on.metric("outrider_draft_workers"):
            await on.workers.changed()
        call.cancel()
        while on.metric("outrider_running_requests"):
            await on.workers.changed()


async def test_plain_decoding_goes_on_where_no_worker_is_left_that_can_run_the_method() -> None:
    able, plain = script("abc", hold_after=1, error=GONE), script("abc")
    del plain.worker.methods[:]
    plain.worker.methods.append("none")
    async with stage(able, others=[plain], failover_timeout_s=PLENTY_S) as on, watched(on):
        request = prompt()
        request.speculation.method = "ngram"
        while on.metric("outrider_draft_workers") < 2:
            await on.workers.changed()
        able.not_ready = GONE
        assert text_of(await answer(on, request)) == "abc"
        methods = [one.speculation.method for one in all_requests(able, plain)]
        assert methods[-1] == "none"
        assert set(methods[:-1]) <= {"ngram"}


async def test_a_failure_of_the_stream_itself_is_not_taken_elsewhere() -> None:
    broken = InternalFailure("the target gave no number")
    workers = [script("abc", hold_after=1, error=broken) for _ in range(2)]
    async with stage(workers[0], others=workers[1:], failover_timeout_s=PLENTY_S) as on:
        error = await grpc_refusal(on, prompt())
        assert error.code() is grpc.StatusCode.INTERNAL
        assert len(all_requests(*workers)) == 1


async def test_workers_come_and_go_by_name() -> None:
    first, second = script("abc"), script("abc")
    async with stage(first) as on:
        await on.readiness.ask()
        server, port = await start_drafting(second)
        try:
            on.workers.discovery.sources = parse_sources(f"dns:{HOST}:{port}")
            await on.workers.ask()
            assert on.workers.addresses == [f"{HOST}:{port}"]
            assert text_of(await answer(on, prompt())) == "abc"
            assert (len(first.requests), len(second.requests)) == (0, 1)
        finally:
            await server.stop(0)
