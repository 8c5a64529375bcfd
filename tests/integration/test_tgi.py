"""The shape of Text Generation Inference, driven by Hugging Face's own client and by hand."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import (
    GenerationError,
    OverloadedError,
    TextGenerationError,
    ValidationError,
)

from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.protocol.errors import NoCapacity, WorkerUnavailable
from tests.integration.gateway_stage import PATIENCE_S, Stage, script, stage
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of

pytestmark = pytest.mark.asyncio

TEXT = "hi 🙂"
COUNT = len(ids_of(TEXT)) + 1  # and the end of sequence


@pytest.fixture(autouse=True)
def _is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token of this machine is sent along."""
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    monkeypatch.delenv("HF_TOKEN", raising=False)


def client_of(on: Stage, path: str = "", token: str | None = None) -> AsyncInferenceClient:
    url = f"http://127.0.0.1:{on.http_port}{path}"
    return AsyncInferenceClient(url, token=token, timeout=PATIENCE_S)


@pytest.mark.parametrize("path", ["", "/generate"])
async def test_a_text_is_continued(path: str) -> None:
    async with stage(script(TEXT, block_size=3)) as on, client_of(on, path) as client:
        assert await client.text_generation("hello", max_new_tokens=20) == TEXT
        (sent,) = on.drafting.requests
        assert list(sent.prompt_token_ids) == ids_of("hello")
        assert (sent.limits.max_new_tokens, sent.sampling.temperature) == (20, 0)
        whole = await client.text_generation("hello", return_full_text=True)
        assert whole == f"hello{TEXT}"


async def test_the_sync_client_too() -> None:
    async with stage(script(TEXT)) as on:
        client = InferenceClient(f"http://127.0.0.1:{on.http_port}", timeout=PATIENCE_S)
        assert await asyncio.to_thread(client.text_generation, "hello") == TEXT
        client.close()


async def test_details_tell_each_token() -> None:
    async with stage(script(TEXT, block_size=3)) as on, client_of(on) as client:
        answer = await client.text_generation("hello", details=True, top_n_tokens=2)
        assert answer.generated_text == TEXT
        details = answer.details
        assert details is not None
        assert (details.finish_reason, details.generated_tokens) == ("eos_token", COUNT)
        assert (details.seed, details.prefill) == (None, [])
        assert [token.id for token in details.tokens] == [*ids_of(TEXT), EOS_ID]
        assert "".join(token.text for token in details.tokens[:-1]) == TEXT
        last = details.tokens[-1]
        assert (last.text, last.special, details.tokens[0].special) == ("<|im_end|>", True, False)
        assert [token.logprob for token in details.tokens[:3]] == [0.0, -0.5, -1.0]
        assert details.top_tokens is not None
        told: Any = details.top_tokens  # the client leaves them as they came
        assert [[top["logprob"] for top in tops] for tops in told] == [[-0.5, -1.5]] * COUNT


@pytest.mark.parametrize("path", ["", "/generate", "/generate_stream"])
async def test_a_stream_has_an_event_for_each_token(path: str) -> None:
    async with stage(script(TEXT, block_size=3)) as on, client_of(on, path) as client:
        words = await client.text_generation("hello", stream=True)
        assert "".join([word async for word in words]) == f"{TEXT}<|im_end|>"
        events = [
            event
            async for event in await client.text_generation(
                "hello", stream=True, details=True, seed=9, do_sample=True, top_n_tokens=2
            )
        ]
        assert [event.index for event in events] == list(range(1, COUNT + 1))
        assert [event.token.id for event in events] == [*ids_of(TEXT), EOS_ID]
        assert [event.generated_text for event in events] == [None] * (COUNT - 1) + [TEXT]
        assert all(len(event.top_tokens) == 2 for event in events)
        end = events[-1].details
        assert (end.finish_reason, end.generated_tokens, end.seed) == ("eos_token", COUNT, 9)
        assert end.input_length == 1


async def test_the_text_goes_up_to_and_with_its_stop_string() -> None:
    async with stage(script("one two END three", block_size=4)) as on, client_of(on) as client:
        for stream in (False, True):
            answer = await client.text_generation("x", stop=["END"], details=True, stream=stream)
            last = [event async for event in answer][-1] if stream else answer
            assert last.generated_text == "one two END"
            assert last.details.finish_reason == "stop_sequence"
        answer = await client.text_generation("x", max_new_tokens=4, details=True)
        assert (answer.generated_text, answer.details.finish_reason) == ("one ", "length")


async def test_what_is_sampled() -> None:
    cases: list[tuple[dict[str, Any], float]] = [
        ({}, 0.0),
        ({"do_sample": False}, 0.0),
        ({"do_sample": True}, 1.0),
        ({"temperature": 1.0}, 0.0),
        ({"temperature": 0.5, "do_sample": False}, 0.5),
        ({"top_k": 5}, 1.0),
        ({"top_p": 0.9}, 1.0),
        ({"top_p": 1.0}, 0.0),
    ]
    async with stage(script("a")) as on:
        for parameters, temperature in cases:
            body = {"inputs": "x", "parameters": {**parameters, "details": True}}
            response = await on.http.post("/generate", json=body)
            sampling = on.drafting.requests[-1].sampling
            assert sampling.temperature == temperature
            assert sampling.top_k == parameters.get("top_k", 0)
            told = response.json()["details"]["seed"]
            assert told == (sampling.seed if temperature else None)


async def test_what_the_worker_is_asked() -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    async with stage(script("{}")) as on:
        parameters = {
            "seed": 2**64 - 1, "do_sample": True, "repetition_penalty": 1.2,
            "frequency_penalty": 0.5, "grammar": {"type": "json", "value": schema},
            "stop": [], "best_of": 1, "watermark": False, "truncate": None,
        }  # fmt: skip
        body = {"inputs": "x", "parameters": parameters}
        assert (await on.http.post("/generate", json=body)).status_code == 200
        sampling = on.drafting.requests[0].sampling
        assert sampling.seed == 2**64 - 1
        assert (sampling.repetition_penalty, sampling.frequency_penalty) == (1.2, 0.5)
        assert json.loads(sampling.grammar.json_schema) == {"type": "object", **schema}
        for grammar, field, value in (
            ({"type": "regex", "value": "a+"}, "regex", "a+"),
            ({"type": "json", "value": "{}"}, "json_schema", "{}"),
            ({"type": "json_schema", "value": {"schema": {}}}, "json_schema", "{}"),
            ({"type": "json", "value": {"type": "string"}}, "json_schema", '{"type": "string"}'),
        ):
            body = {"inputs": "x", "parameters": {"grammar": grammar}}
            assert (await on.http.post("/generate", json=body)).status_code == 200
            assert getattr(on.drafting.requests[-1].sampling.grammar, field) == value
        for kind, bad in (("regex", {}), ("json", []), ("json", "["), ("json_schema", {})):
            body = {"inputs": "x", "parameters": {"grammar": {"type": kind, "value": bad}}}
            assert named(await on.http.post("/generate", json=body), "parameters.grammar.value")


def named(response: httpx.Response, field: str) -> bool:
    """True where it is refused in this shape, and the field is named."""
    told = response.json()
    assert set(told) == {"error", "error_type"}, told
    assert (response.status_code, told["error_type"]) == (422, "validation"), told
    return bool(told["error"].startswith(f"{field}: "))


BAD_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"typical_p": 0.9}, "typical_p"),
    ({"watermark": True}, "watermark"),
    ({"best_of": 2}, "best_of"),
    ({"truncate": 5}, "truncate"),
    ({"decoder_input_details": True}, "decoder_input_details"),
    ({"adapter_id": "x"}, "adapter_id"),
    ({"temperature": 0.0}, "temperature"),
    ({"temperature": -1.0}, "temperature"),
    ({"temperature": 1000.0}, "temperature"),
    ({"top_k": 0}, "top_k"),
    ({"top_p": 0.0}, "top_p"),
    ({"max_new_tokens": 0}, "max_new_tokens"),
    ({"max_new_tokens": 10**6}, "max_new_tokens"),
    ({"repetition_penalty": 0.0}, "repetition_penalty"),
    ({"frequency_penalty": 3.0}, "frequency_penalty"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": [""]}, "stop[0]"),
    ({"seed": -1}, "seed"),
    ({"top_n_tokens": 21}, "top_n_tokens"),
    ({"grammar": {"type": "json", "value": "{"}}, "grammar.value"),
    ({"colour": "red"}, "colour"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
]


async def test_a_bad_parameter_is_refused_by_name() -> None:
    async with stage(script("a")) as on:
        for parameters, field in BAD_PARAMETERS:
            for path in ("/generate", "/generate_stream", "/"):
                body = {"inputs": "x", "parameters": parameters}
                response = await on.http.post(path, json=body)
                assert named(response, f"parameters.{field}"), response.text
        assert not on.drafting.requests


BAD_BODIES: list[tuple[Any, str]] = [
    ({"inputs": ""}, "inputs"),
    ({"inputs": 5}, "inputs"),
    ({"inputs": "x" * 600}, "inputs"),
    ({"inputs": "\ud800"}, "body"),
    ({"parameters": {}}, "inputs"),
    ({"inputs": "x", "prompt": "x"}, "prompt"),
    ({"inputs": "x", "max_new_tokens": 5}, "max_new_tokens"),
    ({"prompt": "x", "parameters": {}}, "prompt"),
    ({"inputs": "x", "surprise": 1}, "surprise"),
]


async def test_a_bad_body_is_refused_by_the_fields_name() -> None:
    headers = {"Content-Type": "application/json"}
    async with stage(script("a")) as on:
        for body, field in BAD_BODIES:
            for path in ("/generate", "/generate_stream"):
                response = await on.http.post(path, content=json.dumps(body), headers=headers)
                assert named(response, field), response.text
        assert not on.drafting.requests


async def test_bodies_of_the_other_shape_and_of_none() -> None:
    async with stage(script("a")) as on:
        assert named(await on.http.post("/generate_stream", json={"prompt": "x"}), "prompt")
        body: dict[str, Any] = {"inputs": "x", "stream": False}
        assert named(await on.http.post("/generate_stream", json=body), "stream")
        response = await on.http.post("/generate_stream", content=b"x")
        assert response.status_code == 415
        assert response.json()["error_type"] == "unsupported_media_type"
        assert response.headers["Connection"] == "close"


async def test_errors_reach_the_client_as_its_own() -> None:
    for error, kind in (
        (NoCapacity("full"), OverloadedError),
        (WorkerUnavailable("gone"), GenerationError),
    ):
        async with (
            stage(script("abc", hold_after=0, error=error)) as on,
            client_of(on) as client,
        ):
            with pytest.raises(kind, match=error.message):
                await client.text_generation("x")
            response = await on.http.post("/generate_stream", json={"inputs": "x"})
            assert response.headers["Retry-After"] == "1"
    async with stage(script("a")) as on, client_of(on) as client:
        with pytest.raises(ValidationError, match=r"parameters\.typical_p"):
            await client.text_generation("x", typical_p=0.5)


async def test_an_error_in_mid_stream_is_the_last_event() -> None:
    drafting = script("abc", hold_after=1, error=WorkerUnavailable("gone"))
    async with stage(drafting) as on, client_of(on) as client:
        words = await client.text_generation("x", stream=True)
        assert await anext(words) == "a"
        with pytest.raises(TextGenerationError, match="gone"):
            await anext(words)


async def test_a_stream_whose_client_leaves_closes_the_session() -> None:
    async with stage(script("abc", hold_after=1)) as on:
        request = on.http.stream("POST", "/generate_stream", json={"inputs": "x"})
        async with request as response:
            assert await anext(response.aiter_lines())
        await on.drafting.wait_for_open(0)


async def test_keys_are_asked_for() -> None:
    key = make_key()
    access = Access(read_api_keys(key_line("alice", key)))
    async with stage(script("abc"), access=access) as on:
        for path in ("/", "/generate_stream"):
            response = await on.http.post(path, json={"inputs": "x"})
            assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert response.json()["error_type"] == "unauthenticated"
        assert (await on.http.get("/info")).status_code == 401
        async with client_of(on, token=None) as client:
            with pytest.raises(TextGenerationError, match="API key"):
                await client.text_generation("x")
        async with client_of(on, token=key) as client:
            assert await client.text_generation("x") == "abc"


async def test_what_is_served() -> None:
    async with stage(script("a")) as on:
        info = (await on.http.get("/info")).json()
        assert (info["model_id"], info["max_total_tokens"]) == ("tiny", 512)
        assert (info["max_best_of"], info["max_stop_sequences"]) == (1, 4)
