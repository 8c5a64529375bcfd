"""With keys set, nobody gets in without one, by either protocol; health is for everybody."""

import grpc
import openai
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.v1 import generation_pb2
from tests.integration.gateway_stage import prompt, script, stage

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
