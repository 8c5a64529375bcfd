"""Answers of the gateway over real sockets: gRPC, JSON and events."""

import socket
from typing import Any

import pytest

from outrider.v1 import decoding_pb2, generation_pb2
from tests.integration.gateway_stage import answer, events, limits, next_text, prompt, script, stage
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of

STOP, LENGTH = decoding_pb2.FINISH_REASON_STOP, decoding_pb2.FINISH_REASON_LENGTH

pytestmark = pytest.mark.asyncio


async def test_one_message_a_round_and_the_last_closes_the_books() -> None:
    async with stage(script("hello world🙂", block_size=2)) as on:
        request = prompt("hello", logprobs=True, request_id="mine")
        messages = await answer(on, request)
        ids = [*ids_of("hello world🙂"), EOS_ID]
        assert [list(m.token_ids) for m in messages] == [
            ids[start : start + 2] for start in range(0, len(ids), 2)
        ]
        assert "".join(m.text for m in messages) == "hello world🙂"
        assert [p for m in messages for p in m.log_probs] == [-0.5 * i for i in range(len(ids))]
        assert {m.request_id for m in messages} == {"mine"}
        assert [m.finish_reason for m in messages[:-1]] == [0] * (len(messages) - 1)
        last = messages[-1]
        assert last.finish_reason == STOP
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (1, len(ids))
        assert last.speculation_report.rounds == len(messages)
        assert not any(m.HasField("usage") for m in messages[:-1])
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 0


async def test_tokens_arrive_while_the_worker_is_still_at_it() -> None:
    async with stage(script("abc", hold_after=2)) as on:
        call = on.stub.Generate(prompt())
        assert [await next_text(call), await next_text(call)] == ["a", "b"]
        on.drafting.release.set()
        assert await next_text(call) == "c"


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_exactly_as_many_tokens_as_asked_for(count: int) -> None:
    """B7 and B8, as far as the gateway can break them."""
    async with stage(script("abcdefghijkl", block_size=5)) as on:
        messages = await answer(on, prompt(limits=limits(max_new_tokens=count)))
        assert sum(len(m.token_ids) for m in messages) == count
        assert messages[-1].usage.completion_tokens == count
        assert messages[-1].finish_reason == LENGTH
        assert on.drafting.requests[0].limits.max_new_tokens == count


async def test_no_tokens_need_no_session() -> None:
    async with stage(script("abc")) as on:
        (message,) = await answer(on, prompt(limits=limits(max_new_tokens=0)))
        assert (message.text, list(message.token_ids)) == ("", [])
        assert message.finish_reason == LENGTH
        assert message.usage == generation_pb2.Usage(prompt_tokens=1, completion_tokens=0)
        response = await on.http.post("/generate", json={"prompt": "hello", "max_new_tokens": 0})
        assert response.json()["usage"] == {"prompt_tokens": 1, "completion_tokens": 0}
        assert on.drafting.requests == []


@pytest.mark.parametrize("block_size", [1, 2, 3, 50])
async def test_a_stop_string_over_blocks_ends_text_and_ids_and_the_session(
    block_size: int,
) -> None:
    async with stage(script("xyEN🙂D and more and more", block_size)) as on:
        request = prompt(limits=limits(stop=["EN🙂D"]), logprobs=True)
        messages = await answer(on, request)
        assert "".join(m.text for m in messages) == "xy"
        ids = [token_id for m in messages for token_id in m.token_ids]
        assert ids == ids_of("xyEN🙂D")
        assert sum(len(m.log_probs) for m in messages) == len(ids)
        last = messages[-1]
        assert (last.finish_reason, last.usage.completion_tokens) == (STOP, len(ids))
        assert last.speculation_report.rounds == len(messages)
        await on.drafting.wait_for_open(0)


async def test_a_stop_string_cancels_the_session_on_the_worker() -> None:
    async with stage(script("abcdef", hold_after=3)) as on:
        await answer(on, prompt(limits=limits(stop=["bc"])))
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 1


async def test_what_the_worker_is_asked() -> None:
    async with stage(script("a")) as on:
        request = prompt(
            sampling=decoding_pb2.Sampling(temperature=0.5),
            speculation=decoding_pb2.Speculation(method="none"),
            limits=limits(stop_token_ids=[7], ignore_eos=True),
        )
        await answer(on, request, timeout_s=30)
        await answer(on, request)
        first, second = on.drafting.requests
        assert (first.sampling.temperature, first.speculation.method) == (0.5, "none")
        assert (list(first.limits.stop_token_ids), first.limits.ignore_eos) == ([7], True)
        assert first.sampling.seed != second.sampling.seed
        assert first.session_id != second.session_id
        assert len(first.session_id) == 16
        assert on.drafting.time_limits[0] < 31 < on.drafting.time_limits[1]


async def test_the_model_is_described() -> None:
    async with stage(script("a")) as on:
        model = await on.stub.GetModel(generation_pb2.GetModelRequest())
        assert (model.model, model.context_limit, model.has_chat_template) == ("tiny", 512, True)
        (entry,) = (await on.http.get("/v1/models")).json()["data"]
        assert (entry["id"], entry["methods"]) == ("tiny", ["none", "ngram"])


async def test_json_is_the_whole_answer() -> None:
    async with stage(script("hello🙂", block_size=2)) as on:
        body = {"chat": [{"role": "user", "content": "hi"}], "logprobs": True, "request_id": "r"}
        response = await on.http.post("/generate", json=body)
        assert response.status_code == 200
        fields = response.json()
        assert (fields["text"], fields["finish_reason"]) == ("hello🙂", "stop")
        assert fields["token_ids"] == [*ids_of("hello🙂"), EOS_ID]
        assert len(fields["log_probs"]) == len(fields["token_ids"])
        assert fields["usage"]["completion_tokens"] == len(fields["token_ids"])
        assert fields["speculation_report"]["method"] == "ngram"
        assert fields["request_id"] == "r"


@pytest.mark.parametrize(
    ("body", "headers"),
    [({"stream": True}, {}), ({}, {"Accept": "text/event-stream"})],
)
async def test_events_are_the_messages_and_done(
    body: dict[str, Any], headers: dict[str, str]
) -> None:
    async with stage(script("hello🙂", block_size=2)) as on:
        request = on.http.stream("POST", "/generate", json={"prompt": "x", **body}, headers=headers)
        async with request as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            *messages, done = await events(response)
        assert done == "[DONE]"
        assert "".join(message["text"] for message in messages) == "hello🙂"
        assert messages[-1]["finish_reason"] == "stop"
        assert all("finish_reason" not in message for message in messages[:-1])


async def test_an_explicit_choice_wins_over_the_accept_header() -> None:
    async with stage(script("a")) as on:
        response = await on.http.post(
            "/generate",
            json={"prompt": "x", "stream": False},
            headers={"Accept": "text/event-stream"},
        )
        assert response.json()["text"] == "a"


async def test_metrics_count_requests_and_times() -> None:
    async with stage(script("abc")) as on:
        await answer(on, prompt())
        await on.http.post("/generate", json={"prompt": ""})
        text = (await on.http.get("/metrics")).text
        assert 'outrider_requests_total{outcome="ok"} 1.0' in text
        assert 'outrider_requests_total{outcome="invalid_argument"} 1.0' in text
        assert "gen_ai_server_time_to_first_token_seconds_count 1.0" in text
        assert "gen_ai_server_time_per_output_token_seconds_count 1.0" in text
        assert "gen_ai_server_request_duration_seconds_count 2.0" in text
        assert "outrider_running_requests 0.0" in text


async def test_several_answers_share_one_call_and_each_closes_its_own_books() -> None:
    async with stage(script("abc", block_size=2)) as on:
        request = prompt("hello", n=3, sampling=decoding_pb2.Sampling(temperature=1.0, seed=7))
        messages = await answer(on, request)
        for number in range(3):
            own = [message for message in messages if message.choice == number]
            assert "".join(message.text for message in own) == "abc"
            assert own[-1].finish_reason == STOP
            assert own[-1].usage.completion_tokens == 4
        assert [request.sampling.seed for request in on.drafting.requests] == [7, 8, 9]
        assert len({request.session_id for request in on.drafting.requests}) == 3
        body = {"prompt": "hello", "n": 2, "seed": 7, "temperature": 1.0}
        response = await on.http.post("/generate", json=body)
        assert [choice["text"] for choice in response.json()["choices"]] == ["abc", "abc"]
        assert [choice.get("choice", 0) for choice in response.json()["choices"]] == [0, 1]
        empty = await answer(on, prompt(n=2, limits=limits(max_new_tokens=0)))
        assert [message.choice for message in empty] == [0, 1]


async def test_small_writes_are_not_held_back() -> None:
    """An event behind another one would wait 40 ms for the client's kernel."""
    async with stage(script("abc")) as on:
        await on.http.get("/health")
        (connection,) = on.http_connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
