"""Who gets in, what for and how much, by either protocol; health is for everybody."""

import asyncio
from typing import Any

import grpc
import openai
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateway.client_address import read_networks
from gateway.guard import GuardLimits
from gateway.rate_limits import Rates
from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.v1 import generation_pb2
from tests.integration.gateway_stage import (
    Stage,
    answer,
    limits,
    prompt,
    rich_status,
    script,
    stage,
)
from tests.unit.gateway.tiny_tokenizer import ids_of

pytestmark = pytest.mark.asyncio

KEY, OTHER = make_key(), make_key()
ACCESS = Access(read_api_keys(f"{key_line('alice', KEY)}\n{key_line('bob', OTHER)}"))
BAD: list[dict[str, str]] = [{}, {"authorization": "Bearer nobody"}, {"authorization": KEY}]


async def test_grpc_asks_for_a_key() -> None:
    async with stage(script("abc"), access=ACCESS) as on:
        for headers in BAD:
            metadata = tuple(headers.items())
            call = on.stub.Generate(prompt(), metadata=metadata)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await on.stub.GetModel(generation_pb2.GetModelRequest(), metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not on.drafting.requests
        good = (("authorization", f"Bearer {KEY}"),)
        messages = [m async for m in on.stub.Generate(prompt(), metadata=good)]
        assert "".join(m.text for m in messages) == "abc"
        health = health_pb2_grpc.HealthStub(on.channel)
        await health.Check(health_pb2.HealthCheckRequest())


async def test_http_asks_for_a_key_in_openais_words() -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "x"}]}
    text = {"model": "tiny", "prompt": "x"}
    bodies = {
        "/generate": {"prompt": "x"},
        "/v1/chat/completions": chat,
        "/v1/completions": text,
    }
    async with stage(script("abc"), access=ACCESS) as on:
        for headers in BAD:
            for path, body in bodies.items():
                response = await on.http.post(path, json=body, headers=headers)
                assert response.status_code == 401
                assert response.headers["WWW-Authenticate"] == "Bearer"
                assert response.json()["error"]["type"] == "authentication_error"
            for path in ("/v1/models", "/metrics"):
                assert (await on.http.get(path, headers=headers)).status_code == 401
        assert not on.drafting.requests
        assert (await on.http.get("/health")).status_code != 401
        url = f"http://127.0.0.1:{on.http_port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            answer = await client.completions.create(model="tiny", prompt="x")
            assert answer.choices[0].text == "abc"


async def test_tenants_do_not_share_cached_prompts() -> None:
    async with stage(script("a"), access=ACCESS) as on:
        for key, salt in ((KEY, ""), (OTHER, ""), (KEY, "x"), (KEY, "")):
            headers = {"authorization": f"Bearer {key}"}
            body = {"prompt": "x", "cache_salt": salt}
            await on.http.post("/generate", json=body, headers=headers)
        first, second, third, again = (request.cache_salt for request in on.drafting.requests)
        assert len({first, second, third}) == 3
        assert first == again
        assert all(len(salt) == 16 for salt in (first, second, third))


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def access(*words: str) -> Access:
    """Of alice, whose line has these words, and of bob."""
    lines = (key_line("alice", KEY, words), key_line("bob", OTHER))
    return Access(read_api_keys("\n".join(lines)))


async def refusal(on: Stage, headers: dict[str, str]) -> tuple[grpc.StatusCode, str, float | None]:
    """Status, reason and seconds to wait of a refused call; HTTP must say the same."""
    call = on.stub.Generate(prompt(), metadata=tuple(headers.items()))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    details = rich_status(caught.value).details
    assert any(detail.Unpack(info) for detail in details)
    has_retry = any(detail.Unpack(retry) for detail in details)
    response = await on.http.post("/generate", json={"prompt": "x"}, headers=headers)
    assert response.json()["error"]["code"] == info.reason.lower()
    assert ("Retry-After" in response.headers) == has_retry
    wait_s = retry.retry_delay.ToTimedelta().total_seconds() if has_retry else None
    return caught.value.code(), info.reason, wait_s


async def test_a_key_is_good_for_what_it_says() -> None:
    async with stage(script("abc"), access=access("may=models")) as on:
        code, reason, _ = await refusal(on, bearer(KEY))
        assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
        response = await on.http.post("/v1/completions", json={}, headers=bearer(KEY))
        assert response.status_code == 403
        assert response.json()["error"]["type"] == "permission_error"
        assert (await on.http.get("/metrics", headers=bearer(KEY))).status_code == 403
        assert (await on.http.get("/v1/models", headers=bearer(KEY))).status_code == 200
        assert (await on.http.get("/metrics", headers=bearer(OTHER))).status_code == 200
        assert on.metric("outrider_requests_total", outcome="permission_denied") == 4


async def test_requests_a_minute_are_counted_over_both_protocols() -> None:
    async with stage(script("abc"), access=access("requests_per_minute=2")) as on:
        assert await answer(on, prompt(), metadata=bearer(KEY))
        post = await on.http.post("/generate", json={"prompt": "x"}, headers=bearer(KEY))
        assert post.status_code == 200
        code, reason, wait_s = await refusal(on, bearer(KEY))
        assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMIT_EXCEEDED")
        assert wait_s is not None
        assert 0 < wait_s <= 30
        assert await answer(on, prompt(), metadata=bearer(OTHER))


async def test_tokens_of_prompt_and_answer_are_charged_when_the_stream_ends() -> None:
    async with stage(script("abcdef", hold_after=2), access=access("tokens_per_day=6")) as on:
        call = on.stub.Generate(prompt("xyz"), metadata=tuple(bearer(KEY).items()))
        await call.read()
        await call.read()
        assert on.quotas.usage == {}
        call.cancel()
        await on.drafting.wait_for_open(0)
        assert on.quotas.usage["alice"].day_tokens == 3 + 2
        on.drafting.release.set()
        cut = prompt("x", limits=limits(max_new_tokens=2))
        assert await answer(on, cut, metadata=bearer(KEY))
        assert on.quotas.usage["alice"].day_tokens == 5 + 3
        code, reason, wait_s = await refusal(on, bearer(KEY))
        assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "INSUFFICIENT_QUOTA")
        assert wait_s is not None
        assert 0 < wait_s <= 86_400


async def test_what_is_refused_or_empty_costs_nothing() -> None:
    async with stage(script("abc"), access=access()) as on:
        headers = bearer(KEY)
        for body in ({"prompt": ""}, {"prompt": "x", "n": 99}):
            assert (await on.http.post("/generate", json=body, headers=headers)).status_code == 400
        body = {"prompt": "x", "max_new_tokens": 0}
        assert (await on.http.post("/generate", json=body, headers=headers)).status_code == 200
        assert on.quotas.usage == {}
        two = {"prompt": "xy", "n": 2, "max_new_tokens": 3}
        assert (await on.http.post("/generate", json=two, headers=headers)).status_code == 200
        assert on.quotas.usage["alice"].day_tokens == 2 + 2 * 3  # the prompt is run once


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_addresses_are_limited_and_only_trusted_proxies_name_them(is_trusted: bool) -> None:
    guard_limits = GuardLimits(
        address_rates=Rates(requests_per_minute=1),
        proxies=read_networks("127.0.0.0/8") if is_trusted else (),
    )
    async with stage(script("abc"), guard_limits=guard_limits) as on:
        statuses = []
        for address in ("203.0.113.1", "203.0.113.2", "203.0.113.1"):
            headers = {"x-forwarded-for": f"made-up, {address}"}
            response = await on.http.post("/generate", json={"prompt": "x"}, headers=headers)
            statuses.append(response.status_code)
        assert statuses == ([200, 200, 429] if is_trusted else [200, 429, 429])
        code, _, _ = await refusal(on, {"x-forwarded-for": "203.0.113.2"})
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_one_tenants_queue_does_not_delay_another_one() -> None:
    worker = script("ab", hold_after=1)
    async with stage(worker, access=access(), max_running=1, max_queued=8) as on:

        async def ask(key: str, text: str) -> Any:
            return await answer(on, prompt(text), metadata=bearer(key))

        tasks = [asyncio.create_task(ask(KEY, "x")) for _ in range(9)]
        while on.metric("outrider_queued_requests") < 8:
            await on.http.get("/health")
        tasks.append(asyncio.create_task(ask(OTHER, "y")))  # the queue is full, of alice's
        (gave_way,), _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        error = gave_way.exception()
        assert isinstance(error, grpc.aio.AioRpcError)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "needed for others" in (error.details() or "")
        on.drafting.release.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        order = [list(request.prompt_token_ids) == ids_of("y") for request in worker.requests]
        assert order == [False, False, True, *[False] * 6]  # one of alice's ran, one was first
