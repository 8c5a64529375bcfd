"""Bad requests, case by case: each gets its verdict, and a healthy stream beside it stays exact."""

import json

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.v1 import generation_pb2
from tests.integration.bad_requests import CASES, HTTP_STATUS, MAX_BYTES, OK, Case
from tests.integration.gateway_stage import (
    ScriptedDrafting,
    Stage,
    prompt,
    rich_status,
    stage,
)
from tests.integration.healthy_stream import HealthyStream, PacedDrafting
from tests.unit.gateway.tiny_tokenizer import ids_of


async def over_grpc(on: Stage, case: Case) -> None:
    request = case.request
    assert request is not None, case.name
    data = request if isinstance(request, bytes) else request.SerializeToString()
    generate: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = on.channel.unary_stream(
        "/outrider.v1.GenerationService/Generate"
    )
    call = generate(data)
    if case.code is OK:
        messages = [generation_pb2.GenerateResponse.FromString(data) async for data in call]
        assert messages[-1].finish_reason, case.name
        return
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is case.code, (case.name, caught.value.details())
    if case.field:
        bad = error_details_pb2.BadRequest()
        assert rich_status(caught.value).details[0].Unpack(bad), case.name
        assert [one.field for one in bad.field_violations] == [case.field], case.name


async def over_http(on: Stage, case: Case) -> None:
    for path, body, param in case.bodies:
        content = body if isinstance(body, bytes) else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        response = await on.http.post(path, content=content, headers=headers)
        shown = (case.name, path, response.text[:200])
        assert response.status_code == HTTP_STATUS[case.code], shown
        if case.code is OK:
            continue
        error = response.json()["error"]
        assert error["param"] == param, shown
        assert set(error) == {"message", "type", "param", "code"}
        assert len(response.content) < 1024, shown


@pytest.mark.asyncio
async def test_every_case_gets_its_verdict_and_the_stream_beside_it_stays_exact() -> None:
    drafting = PacedDrafting()
    async with stage(drafting, max_request_bytes=MAX_BYTES) as on:
        healthy = HealthyStream(on.channel, drafting)
        for case in CASES:
            if case.field is not None:
                await over_grpc(on, case)
            await over_http(on, case)
            await healthy.goes_on(case.name)
        assert len(drafting.requests) == 1 + sum(case.sessions for case in CASES)
        await healthy.ends()


@pytest.mark.asyncio
async def test_one_name_for_two_requests_is_no_mistake() -> None:
    """Case 34: the name is the client's own and only echoed."""
    async with stage(ScriptedDrafting(answer=ids_of("ok"), hold_after=1)) as on:
        calls = [on.stub.Generate(prompt(request_id="same")) for _ in range(2)]
        await on.drafting.wait_for_open(2)
        on.drafting.release.set()
        for call in calls:
            messages = [message async for message in call]
            assert "".join(message.text for message in messages) == "ok"
            assert {message.request_id for message in messages} == {"same"}
