"""Refused requests and faults behind the gateway: the same verdict on gRPC and HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.protocol.errors import (
    InvalidField,
    NoCapacity,
    OutriderError,
    WorkerUnavailable,
)
from outrider.v1 import decoding_pb2, generation_pb2
from tests.integration.gateway_stage import (
    Stage,
    events,
    grpc_refusal,
    limits,
    next_text,
    prompt,
    rich_status,
    script,
    stage,
)

SERVICE = "outrider.v1.GenerationService"

pytestmark = pytest.mark.asyncio


VERDICTS: list[tuple[generation_pb2.GenerateRequest, dict[str, Any], grpc.StatusCode, str]] = [
    (
        generation_pb2.GenerateRequest(),
        {},
        grpc.StatusCode.INVALID_ARGUMENT,
        "prompt",
    ),
    (prompt(""), {"prompt": ""}, grpc.StatusCode.INVALID_ARGUMENT, "prompt"),
    (
        generation_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(ids=[1, 300])),
        {"token_ids": [1, 300]},
        grpc.StatusCode.INVALID_ARGUMENT,
        "token_ids.ids[1]",
    ),
    (
        prompt("x" * 513),
        {"prompt": "x" * 513},
        grpc.StatusCode.INVALID_ARGUMENT,
        "prompt",
    ),
    (
        prompt(limits=limits(max_new_tokens=512)),
        {"prompt": "hello", "max_new_tokens": 512},
        grpc.StatusCode.INVALID_ARGUMENT,
        "limits.max_new_tokens",
    ),
    (
        prompt(sampling=decoding_pb2.Sampling(temperature=-0.1)),
        {"prompt": "hello", "temperature": -0.1},
        grpc.StatusCode.INVALID_ARGUMENT,
        "sampling.temperature",
    ),
    (
        prompt(sampling=decoding_pb2.Sampling(top_p=0.0)),
        {"prompt": "hello", "sampling": {"top_p": 0}},
        grpc.StatusCode.INVALID_ARGUMENT,
        "sampling.top_p",
    ),
    (
        prompt(limits=limits(stop=["a"] * 5)),
        {"prompt": "hello", "limits": {"stop": ["a"] * 5}},
        grpc.StatusCode.INVALID_ARGUMENT,
        "limits.stop",
    ),
    (
        prompt(speculation=decoding_pb2.Speculation(method="magic")),
        {"prompt": "hello", "speculation": {"method": "magic"}},
        grpc.StatusCode.INVALID_ARGUMENT,
        "speculation.method",
    ),
    (
        generation_pb2.GenerateRequest(
            chat=generation_pb2.Chat(messages=[generation_pb2.ChatMessage(role="robot")])
        ),
        {"chat": [{"role": "robot", "content": ""}]},
        grpc.StatusCode.INVALID_ARGUMENT,
        "chat.messages[0].role",
    ),
    (
        prompt(request_id="a\nb"),
        {"prompt": "hello", "request_id": "a\nb"},
        grpc.StatusCode.INVALID_ARGUMENT,
        "request_id",
    ),
    (
        prompt(sampling=decoding_pb2.Sampling(presence_penalty=3.0)),
        {"prompt": "hello", "sampling": {"presence_penalty": 3.0}},
        grpc.StatusCode.INVALID_ARGUMENT,
        "sampling.presence_penalty",
    ),
    (
        prompt(speculation=decoding_pb2.Speculation(validation_threshold=1.5)),
        {"prompt": "hello", "speculation": {"validation_threshold": 1.5}},
        grpc.StatusCode.INVALID_ARGUMENT,
        "speculation.validation_threshold",
    ),
]

HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
}


async def test_both_protocols_give_the_same_verdict() -> None:
    async with stage(script("abc")) as on:
        for request, body, code, field in VERDICTS:
            error = await grpc_refusal(on, request)
            assert error.code() is code, field
            bad = error_details_pb2.BadRequest()
            assert rich_status(error).details[0].Unpack(bad)
            assert [violation.field for violation in bad.field_violations] == [field]

            response = await on.http.post("/generate", json=body)
            assert response.status_code == HTTP_STATUS[code], field
            told = response.json()["error"]
            assert told["code"] == code.name.lower()
            assert told["param"] == field.replace("token_ids.ids", "token_ids").replace(
                "chat.messages", "chat"
            )
            assert told["type"] in ("invalid_request_error", "server_error")
            assert told["param"] in told["message"]
        assert on.drafting.requests == []


def raw_generate(
    on: Stage, method: str = "Generate"
) -> "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]":
    """The method of a client that sends and reads bytes."""
    return on.channel.unary_stream(f"/{SERVICE}/{method}")


async def test_a_message_that_is_no_protobuf_is_refused() -> None:
    async with stage(script("abc")) as on:
        for data in (b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x12\x05abc"):
            call = raw_generate(on)(data)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_generate(on, method="Guess")(b"").read()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_field_that_is_not_known_is_ignored_over_grpc() -> None:
    async with stage(script("abc")) as on:
        newer = prompt().SerializeToString() + b"\xfa\x3f\x01x"  # field 1023
        messages = [
            generation_pb2.GenerateResponse.FromString(data)
            async for data in raw_generate(on)(newer)
        ]
        assert "".join(message.text for message in messages) == "abc"


async def test_requests_that_are_too_large_are_refused() -> None:
    async with stage(script("abc"), max_request_bytes=2048) as on:
        error = await grpc_refusal(on, prompt("x" * 4096))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        response = await on.http.post("/generate", json={"prompt": "x" * 4096})
        assert response.status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(8):
                yield b" " * 1024

        headers = {"Content-Type": "application/json"}
        response = await on.http.post("/generate", content=chunks(), headers=headers)
        assert response.status_code == 413


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"prompt": "x", "temperature": NaN}', "application/json", 400),
        (b'{"prompt": "x", "prompt": "x"}', "application/json", 400),
        (b"[" * 10_000, "application/json", 400),
        (b'{"prompt": "x", "surprise": 1}', "application/json", 400),
        (b'{"prompt": "x"}', "text/plain", 415),
        (b'{"prompt": "x"}', "application/json; charset=utf-16", 415),
        (b'{"prompt": "x"}', "", 415),
        (b'{"prompt": "x"}', "application/json; charset=UTF-8", 200),
    ],
)
async def test_bodies_that_are_not_strict_json(
    content: bytes, content_type: str, status: int
) -> None:
    async with stage(script("abc")) as on:
        headers = {"Content-Type": content_type} if content_type else {}
        response = await on.http.post("/generate", content=content, headers=headers)
        assert response.status_code == status
        assert ("error" in response.json()) == (status != 200)


async def test_a_schema_as_deep_as_json_can_be_read_is_no_failure_of_ours() -> None:
    """Writing it again takes a little more depth than reading it."""
    bodies = (
        ("/generate", '{"prompt": "x", "sampling": {"grammar": {"json_schema": %s}}}'),
        ("/generate", '{"inputs": "x", "parameters": {"grammar": {"type": "json", "value": %s}}}'),
        (
            "/v1/completions",
            '{"model": "tiny", "prompt": "x", "response_format": '
            '{"type": "json_schema", "json_schema": {"name": "x", "schema": %s}}}',
        ),
    )
    headers = {"Content-Type": "application/json"}
    async with stage(script("abc")) as on:
        for path, body in bodies:
            statuses = set()
            for depth in range(900, 1100, 4):
                content = body % ('{"not": ' * depth + "{}" + "}" * depth)
                response = await on.http.post(path, content=content, headers=headers)
                statuses.add(response.status_code)
            assert statuses <= {200, 400, 422}, path
            assert len(statuses) > 1, path


async def test_routes_that_do_not_exist_answer_in_the_same_shape() -> None:
    async with stage(script("abc")) as on:
        assert (await on.http.get("/generate")).status_code == 405
        response = await on.http.get("/nowhere")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "not_found"
        assert (await on.http.get("/openapi.json")).status_code == 200


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (WorkerUnavailable("the verify worker is gone"), grpc.StatusCode.UNAVAILABLE, 503),
        (NoCapacity("no KV blocks"), grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
        (InvalidField("limits.max_new_tokens", "too many"), grpc.StatusCode.INVALID_ARGUMENT, 400),
    ],
)
async def test_an_error_of_the_worker_reaches_the_client(
    error: OutriderError, code: grpc.StatusCode, status: int
) -> None:
    async with stage(script("abc", hold_after=0, error=error)) as on:
        refusal = await grpc_refusal(on, prompt())
        assert (refusal.code(), refusal.details()) == (code, error.message)
        response = await on.http.post("/generate", json={"prompt": "x", "stream": True})
        assert response.status_code == status
        assert response.json()["error"]["message"] == error.message


async def test_an_error_after_the_first_message_is_an_event_without_done() -> None:
    worker = script("abc", hold_after=1, error=WorkerUnavailable("the verify worker is gone"))
    async with stage(worker) as on:
        call = on.stub.Generate(prompt())
        assert await next_text(call) == "a"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        request = on.http.stream("POST", "/generate", json={"prompt": "x", "stream": True})
        async with request as response:
            assert response.status_code == 200
            message, error = await events(response)
        assert message["text"] == "a"
        assert error["error"]["code"] == "unavailable"


async def test_a_worker_that_skips_tokens_ends_its_stream_in_words() -> None:
    async with stage(script("abc", skip=1)) as on:
        error = await grpc_refusal(on, prompt())
        assert error.code() is grpc.StatusCode.INTERNAL
        assert "skipped" in (error.details() or "")
        await on.drafting.wait_for_open(0)


async def test_an_unexpected_failure_shows_nothing_of_the_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage(script("abc")) as on:

        def broken(size: int) -> bytes:
            raise RuntimeError("secret")

        monkeypatch.setattr(on.generation, "_entropy", broken)
        error = await grpc_refusal(on, prompt())
        assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "internal error")
        response = await on.http.post("/generate", json={"prompt": "x"})
        assert response.status_code == 500
        assert "secret" not in response.text


async def test_another_targets_worker_is_refused_in_words() -> None:
    worker = script("abc")
    worker.worker.vocab_size = 100
    async with stage(worker) as on:
        error = await grpc_refusal(on, prompt())
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "vocabulary of 100" in (error.details() or "")
        await on.readiness.ask()
        assert "vocabulary of 100" in (await on.http.get("/health")).json()["reason"]
