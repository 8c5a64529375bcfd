"""Health, reflection and traces of the gateway."""

import re

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from gateway.probes import create_probe_app
from outrider.protocol.errors import (
    WorkerUnavailable,
)
from outrider.telemetry.metrics_listener import Admits
from tests.integration.gateway_stage import (
    ScriptedDrafting,
    Stage,
    grpc_refusal,
    prompt,
    script,
    stage,
)
from tests.unit.gateway.tiny_tokenizer import ids_of

SERVICE = "outrider.v1.GenerationService"

pytestmark = pytest.mark.asyncio


async def health_of(on: Stage, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(on.channel)
    response = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return int(response.status)


async def test_health_tells_the_truth_on_both_protocols() -> None:
    serving = health_pb2.HealthCheckResponse.SERVING
    not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
    worker = ScriptedDrafting()
    async with stage(worker) as on:

        async def seen() -> tuple[int, int, int, str]:
            response = await on.http.get("/health")
            reason = response.json().get("reason", "")
            return (
                await health_of(on, ""),
                await health_of(on, SERVICE),
                response.status_code,
                reason,
            )

        assert await seen() == (not_serving, not_serving, 503, "starting")
        await on.readiness.ask()
        assert await seen() == (serving, serving, 200, "")
        head = await on.http.head("/health")
        assert (head.status_code, head.content) == (200, b"")
        worker.not_ready = WorkerUnavailable("no verify worker answers")
        await on.readiness.ask()
        assert await seen() == (not_serving, not_serving, 503, "no verify worker answers")
        worker.not_ready = None
        await on.readiness.ask()
        assert await seen() == (serving, serving, 200, "")
        await on.draft_server.stop(0)
        await on.readiness.ask()
        *_, status, reason = await seen()
        assert status == 503
        assert reason.startswith("no draft worker answers at")
        assert (await grpc_refusal(on, prompt())).code() is grpc.StatusCode.UNAVAILABLE
        await on.readiness.drain()
        assert (await seen())[3] == "draining"


async def test_a_client_made_of_reflection_alone_streams() -> None:
    async with stage(script("hello🙂")) as on:
        pool = descriptor_pool.DescriptorPool()
        stub = reflection_pb2_grpc.ServerReflectionStub(on.channel)
        question = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
        call = stub.ServerReflectionInfo(iter([question]))
        response = await call.read()
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(data)
            for data in response.file_descriptor_response.file_descriptor_proto
        ]
        call.cancel()
        missing = {file.name: file for file in files}
        while missing:  # dependencies first
            file = next(f for f in missing.values() if not missing.keys() & set(f.dependency))
            pool.Add(missing.pop(file.name))
        method = pool.FindServiceByName(SERVICE).FindMethodByName("Generate")
        request_class = message_factory.GetMessageClass(method.input_type)
        response_class = message_factory.GetMessageClass(method.output_type)
        generate = on.channel.unary_stream(
            f"/{SERVICE}/Generate",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        call = generate(request_class(prompt="hi"))
        texts = [getattr(message, "text") async for message in call]  # noqa: B009  # made at run time
        assert "".join(texts) == "hello🙂"
        assert len(texts) > 2


async def test_the_page_of_the_api_asks_no_other_host() -> None:
    async with stage(ScriptedDrafting()) as on:
        page = await on.http.get("/docs")
        named = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
        assert len(named) >= 2
        for path in named:
            assert path.startswith("/"), "not of this service"
            assert (await on.http.get(path)).status_code == 200
        assert (await on.http.get("/redoc")).status_code == 404


async def test_reflection_can_be_switched_off() -> None:
    async with stage(script("a"), reflection_enabled=False) as on:
        stub = reflection_pb2_grpc.ServerReflectionStub(on.channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest()]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_request_is_one_span_under_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("gateway.request_record.tracer", lambda: provider.get_tracer("test"))
    trace_id, span_id = "ab" * 16, "cd" * 8
    header = f"00-{trace_id}-{span_id}-01"
    async with stage(script("abc", hold_after=3)) as on:
        on.drafting.release.set()
        call = on.stub.Generate(prompt("secret"), metadata=(("traceparent", header),))
        assert [message async for message in call]
        await on.http.post("/generate", json={"prompt": ""}, headers={"traceparent": header})
        on.drafting.release.clear()
        call = on.stub.Generate(prompt("secret"), metadata=(("traceparent", header),))
        await call.read()
        call.cancel()
        await on.drafting.wait_for_open(0)
    done, refused, cancelled = exporter.get_finished_spans()
    for span in (done, refused, cancelled):
        assert span.parent is not None
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == trace_id
        assert f"{span.parent.span_id:016x}" == span_id
        assert "secret" not in span.to_json()
    assert done.attributes is not None
    assert done.attributes["gen_ai.usage.input_tokens"] == len(ids_of("secret"))
    assert done.attributes["gen_ai.usage.output_tokens"] == 4
    assert done.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert done.status.status_code is StatusCode.UNSET
    assert (refused.status.status_code, refused.status.description) == (
        StatusCode.ERROR,
        "invalid_argument",
    )
    assert (cancelled.status.status_code, cancelled.status.description) == (
        StatusCode.ERROR,
        "cancelled",
    )
    assert done.context is not None
    assert on.drafting.traceparents[0] == f"00-{trace_id}-{done.context.span_id:016x}-01"


@pytest.mark.parametrize(
    ("admits", "statuses"),
    [(None, (200, 200)), (lambda header: header == "Bearer x", (401, 200))],
    ids=["everybody", "with a token"],
)
async def test_the_probe_listener_shows_metrics_to_whoever_may_read_them(
    admits: Admits | None, statuses: tuple[int, int]
) -> None:
    async with stage(script("abc")) as on:
        app = create_probe_app(on.readiness, on.metrics, admits)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://probe") as http:
            stranger = await http.get("/metrics")
            reader = await http.get("/metrics", headers={"Authorization": "Bearer x"})
            assert (stranger.status_code, reader.status_code) == statuses
            assert "outrider_running_requests" in reader.text
            if admits is not None:
                assert stranger.headers["www-authenticate"] == 'Bearer realm="metrics"'
                assert "--metrics-token-file" in stranger.text
            assert (await http.get("/health")).status_code == 503, "for everybody"
