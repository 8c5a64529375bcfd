"""The OpenAI API, driven by OpenAI's own client."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from outrider.protocol.errors import NoCapacity, WorkerUnavailable
from tests.integration.gateway_stage import Stage, script, stage
from tests.unit.gateway.tiny_tokenizer import ids_of

pytestmark = pytest.mark.asyncio

HI_TOKENS = len(ids_of("hi there")) + 1  # and the end of sequence
HELLO: Any = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def client_of(on: Stage) -> AsyncIterator[Any]:
    """Untyped: some of what is sent here the client's own types would refuse."""
    url = f"http://127.0.0.1:{on.http_port}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


async def test_a_conversation_is_answered() -> None:
    async with stage(script("hi there")) as on, client_of(on) as client:
        answer = await client.chat.completions.create(
            model="tiny", messages=[{"role": "developer", "content": "Be brief."}, *HELLO],
            temperature=0.5, top_p=0.9, seed=7, max_completion_tokens=20, stop="zz",
            presence_penalty=0.5, frequency_penalty=-0.5, logit_bias={"5": 1.5}, user="me",
            extra_body={
                "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.2, "min_tokens": 1,
                "speculation": {"method": "ngram", "max_nodes": 5}, "cache_salt": "s",
            },
        )  # fmt: skip
        (choice,) = answer.choices
        assert (choice.message.content, choice.finish_reason) == ("hi there", "stop")
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + HI_TOKENS
        assert (answer.model, answer.object) == ("tiny", "chat.completion")
        (sent,) = on.drafting.requests
        sampling = sent.sampling
        assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.5, 0.9, 7)
        assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, -0.5)
        assert (dict(sampling.logit_bias), sampling.top_k) == ({5: 1.5}, 40)
        assert (sent.limits.max_new_tokens, sent.limits.min_new_tokens) == (20, 1)
        assert (sent.speculation.max_nodes, sent.cache_salt) == (5, b"s")


async def test_without_a_temperature_it_is_openais() -> None:
    async with stage(script("a")) as on, client_of(on) as client:
        await client.chat.completions.create(model="tiny", messages=HELLO)
        assert on.drafting.requests[0].sampling.temperature == 1.0


async def test_a_conversation_streams_and_closes_with_usage() -> None:
    async with stage(script("hi there", block_size=2)) as on, client_of(on) as client:
        stream = await client.chat.completions.create(
            model="tiny", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert chunks[0].choices[0].delta.role == "assistant"
        words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(words) == "hi there"
        assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + [
            "stop"
        ]
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == HI_TOKENS
        assert len({chunk.id for chunk in chunks}) == 1


async def test_several_answers_whole_and_streamed() -> None:
    async with stage(script("abc")) as on, client_of(on) as client:
        answer = await client.chat.completions.create(model="tiny", messages=HELLO, n=3, seed=1)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        assert answer.usage.completion_tokens == 3 * 4
        stream = await client.chat.completions.create(
            model="tiny", messages=HELLO, n=2, seed=1, stream=True
        )
        texts = {0: "", 1: ""}
        async for chunk in stream:
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        assert texts == {0: "abc", 1: "abc"}


async def test_log_probabilities_with_the_likeliest_beside() -> None:
    async with stage(script("ab")) as on, client_of(on) as client:
        answer = await client.chat.completions.create(
            model="tiny", messages=HELLO, logprobs=True, top_logprobs=2
        )
        first = answer.choices[0].logprobs.content[0]
        assert (first.token, first.logprob, first.bytes) == ("a", 0.0, [97])
        assert [one.logprob for one in first.top_logprobs] == [-0.5, -1.5]
        older = await client.completions.create(model="tiny", prompt="x", logprobs=2)
        assert older.choices[0].logprobs.tokens[:2] == ["a", "b"]
        assert len(older.choices[0].logprobs.top_logprobs[0]) == 2


async def test_a_text_is_continued_from_words_or_ids() -> None:
    async with stage(script("abc")) as on, client_of(on) as client:
        for prompt in ("hello", ["hello"], [5, 6], [[5, 6]]):
            answer = await client.completions.create(model="tiny", prompt=prompt, max_tokens=3)
            assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("abc", "length")
        assert list(on.drafting.requests[-1].prompt_token_ids) == [5, 6]
        stream = await client.completions.create(model="tiny", prompt="hello", stream=True)
        assert "".join([chunk.choices[0].text async for chunk in stream]) == "abc"


async def test_json_of_a_schema_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    async with stage(script("{}")) as on, client_of(on) as client:
        for given, wanted in (
            ({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, schema),
            ({"type": "json_object"}, {"type": "object"}),
        ):
            await client.chat.completions.create(
                model="tiny", messages=HELLO, response_format=given
            )
            grammar = on.drafting.requests[-1].sampling.grammar
            assert json.loads(grammar.json_schema) == wanted
        await client.chat.completions.create(
            model="tiny", messages=HELLO, response_format={"type": "text"}
        )
        assert not on.drafting.requests[-1].sampling.HasField("grammar")


async def test_models_are_listed() -> None:
    async with stage(script("a")) as on, client_of(on) as client:
        (model,) = [model async for model in client.models.list()]
        assert (model.id, model.created > 0) == ("tiny", True)
        assert await client.models.retrieve("tiny") == model
        with pytest.raises(openai.NotFoundError, match="'tiny' is"):
            await client.models.retrieve("some/other")


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"temperature": 200.0}, openai.BadRequestError, "temperature"),
        ({"max_tokens": 10**6}, openai.BadRequestError, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, openai.BadRequestError, "max_tokens"),
        ({"messages": []}, openai.BadRequestError, "messages"),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            openai.BadRequestError,
            "messages[0].role",
        ),
        ({"stop": ["a"] * 5}, openai.BadRequestError, "stop"),
        ({"top_logprobs": 3}, openai.BadRequestError, "top_logprobs"),
        ({"n": 99}, openai.BadRequestError, "n"),
        ({"logit_bias": {"x": 1}}, openai.BadRequestError, "logit_bias"),
        ({"response_format": {"type": "json_schema"}}, openai.BadRequestError, "response_format"),
        ({"extra_body": {"colour": "red"}}, openai.BadRequestError, "colour"),
        ({"stream_options": {"include_usage": True}}, openai.BadRequestError, "stream_options"),
        ({"tools": [{"type": "function"}]}, openai.InternalServerError, "tools"),
        ({"model": "other"}, openai.NotFoundError, "model"),
    ],
)
async def test_a_bad_field_has_its_own_name(
    fields: dict[str, Any], kind: type[openai.APIStatusError], param: str
) -> None:
    async with stage(script("a")) as on, client_of(on) as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**{"model": "tiny", "messages": HELLO} | fields)
        assert str(caught.value.param).startswith(param)
        assert param.split("[", maxsplit=1)[0] in caught.value.message
        assert not on.drafting.requests


async def test_a_full_service_and_one_without_a_worker_say_so() -> None:
    for error, kind in (
        (NoCapacity("full"), openai.RateLimitError),
        (WorkerUnavailable("gone"), openai.InternalServerError),
    ):
        drafting = script("abc", hold_after=0, error=error)
        async with stage(drafting) as on, client_of(on) as client:
            with pytest.raises(kind):
                await client.chat.completions.create(model="tiny", messages=HELLO)


async def test_an_error_in_mid_stream_reaches_the_client() -> None:
    drafting = script("abc", hold_after=1, error=WorkerUnavailable("gone"))
    async with stage(drafting) as on, client_of(on) as client:
        stream = await client.chat.completions.create(model="tiny", messages=HELLO, stream=True)

        async def read() -> None:
            async for _ in stream:
                pass

        with pytest.raises(openai.APIError, match="gone"):
            await read()
