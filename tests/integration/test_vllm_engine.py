"""A router's client against the gateway: vllm.grpc.engine.VllmEngine, over real sockets."""

import asyncio
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2_grpc
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.protocol.errors import WorkerUnavailable
from tests.integration.gateway_stage import Stage, rich_status, script, stage
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of

pytestmark = pytest.mark.asyncio

SERVICE = "vllm.grpc.engine.VllmEngine"


def engine(on: Stage) -> Any:
    return vllm_engine_pb2_grpc.VllmEngineStub(on.channel)


def asked(*, stream: bool = True, **params: Any) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        request_id="r1",
        tokenized=pb.TokenizedInput(input_ids=ids_of("hello")),
        sampling_params=pb.SamplingParams(**params),
        stream=stream,
    )


async def test_a_stream_is_chunks_and_an_end(tmp_path: Path) -> None:
    async with stage(script("abcd", block_size=2), vllm_folder=tmp_path) as on:
        *parts, last = [one async for one in engine(on).Generate(asked(logprobs=2))]
        ids = [i for part in parts for i in part.chunk.token_ids]
        assert ids == [*ids_of("abcd"), EOS_ID]
        assert sum(part.chunk.completion_tokens for part in parts) == 5
        assert list(parts[0].chunk.output_logprobs.token_logprobs) == [0.0, -0.5]
        assert list(last.complete.output_ids) == []
        assert (last.complete.finish_reason, last.complete.prompt_tokens) == ("stop", 1)
        assert on.drafting.requests[0].sampling.temperature == 1.0


async def test_a_whole_answer_for_each_choice(tmp_path: Path) -> None:
    async with stage(script("abcd"), vllm_folder=tmp_path) as on:
        request = asked(stream=False, n=2, max_tokens=3)
        answers = [one.complete async for one in engine(on).Generate(request)]
        assert [list(one.output_ids) for one in answers] == [ids_of("abc")] * 2
        assert [one.index for one in answers] == [0, 1]
        assert {(one.finish_reason, one.completion_tokens) for one in answers} == {("length", 3)}


async def test_an_abort_ends_the_request_on_all_workers(tmp_path: Path) -> None:
    async with stage(script("abcd", hold_after=1), vllm_folder=tmp_path) as on:
        call = engine(on).Generate(asked())
        await call.read()
        await engine(on).Abort(pb.AbortRequest(request_ids=["other", "r1"]))
        last = await call.read()
        assert last.complete.finish_reason == "abort"
        assert await call.read() is grpc.aio.EOF
        await on.drafting.wait_for_open(0)


async def test_a_client_that_leaves_ends_the_request(tmp_path: Path) -> None:
    async with stage(script("abcd", hold_after=1), vllm_folder=tmp_path) as on:
        call = engine(on).Generate(asked())
        await call.read()
        call.cancel()
        await on.drafting.wait_for_open(0)


async def test_a_bad_field_is_named_as_the_router_wrote_it(tmp_path: Path) -> None:
    async with stage(script("abcd"), vllm_folder=tmp_path) as on:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await engine(on).Generate(asked(prompt_logprobs=3)).read()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        bad = error_details_pb2.BadRequest()
        assert any(one.Unpack(bad) for one in rich_status(caught.value).details)
        assert bad.field_violations[0].field == "sampling_params.prompt_logprobs"


async def test_what_is_served_and_how_busy_it_is(tmp_path: Path) -> None:
    async with stage(script("abcd", hold_after=1), vllm_folder=tmp_path) as on:
        model = await engine(on).GetModelInfo(pb.GetModelInfoRequest())
        assert (model.served_model_name, model.max_context_length) == ("tiny", 512)
        assert (model.vocab_size, list(model.eos_token_ids)) == (300, [EOS_ID])
        call = engine(on).Generate(asked())
        await call.read()
        server = await engine(on).GetServerInfo(pb.GetServerInfoRequest())
        assert (server.active_requests, server.server_type) == (1, "outrider")
        (load,) = (await engine(on).GetLoads(pb.GetLoadsRequest())).loads
        assert (load.num_running_reqs, load.num_waiting_reqs) == (1, 0)
        call.cancel()


async def test_health_is_the_truth(tmp_path: Path) -> None:
    async with stage(script("abcd"), vllm_folder=tmp_path) as on:
        await on.readiness.ask()
        assert (await engine(on).HealthCheck(pb.HealthCheckRequest())).healthy
        on.drafting.not_ready = WorkerUnavailable("no verify worker answers")
        await on.readiness.ask()
        health = await engine(on).HealthCheck(pb.HealthCheckRequest())
        assert (health.healthy, health.message) == (False, "no verify worker answers")


async def test_the_tokenizers_files(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    async with stage(script("abcd"), vllm_folder=tmp_path) as on:
        call = engine(on).GetTokenizer(common_pb2.GetTokenizerRequest())
        parts = [part async for part in call]
        archive = b"".join(part.data for part in parts)
        assert parts[-1].sha256 == hashlib.sha256(archive).hexdigest()
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            assert files.namelist() == ["tokenizer.json"]


async def test_what_is_not_done_here_says_so(tmp_path: Path) -> None:
    async with stage(script("abcd"), vllm_folder=tmp_path) as on:
        for name, request in (
            ("Embed", pb.EmbedRequest()),
            ("FlushCache", common_pb2.FlushCacheRequest()),
            ("StartProfile", common_pb2.StartProfileRequest()),
            ("StopProfile", common_pb2.StopProfileRequest()),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await getattr(engine(on), name)(request)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await engine(on).SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest()).read()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_strangers_get_in_nowhere_and_tenants_abort_their_own_only(tmp_path: Path) -> None:
    keys = {name: make_key() for name in ("alice", "bob")}
    lines = "\n".join(key_line(name, key) for name, key in keys.items())
    access = Access(read_api_keys(lines))
    metadata = {name: (("authorization", f"Bearer {key}"),) for name, key in keys.items()}
    async with stage(script("abcd", hold_after=1), vllm_folder=tmp_path, access=access) as on:
        for name, request in (
            ("GetModelInfo", pb.GetModelInfoRequest()),
            ("GetServerInfo", pb.GetServerInfoRequest()),
            ("GetLoads", pb.GetLoadsRequest()),
            ("Abort", pb.AbortRequest()),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await getattr(engine(on), name)(request)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        call = engine(on).Generate(asked(), metadata=metadata["alice"])
        await call.read()
        abort = pb.AbortRequest(request_ids=["r1"])
        await engine(on).Abort(abort, metadata=metadata["bob"])
        on.drafting.release.set()
        rest = [part.chunk.token_ids[0] async for part in _read(call) if part.HasField("chunk")]
        assert rest == [*ids_of("bcd"), EOS_ID]


async def test_reflection_and_health_know_it(tmp_path: Path) -> None:
    async with stage(script("abcd"), vllm_folder=tmp_path) as on:
        await on.readiness.ask()
        stub = health_pb2_grpc.HealthStub(on.channel)
        async with asyncio.timeout(5):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=SERVICE))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def _read(call: Any) -> Any:
    while (part := await call.read()) is not grpc.aio.EOF:
        yield part
