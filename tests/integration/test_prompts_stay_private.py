"""A prompt with a mark in it, asked in every way and with every end: the mark is told to nobody.

Neither prompts nor answers nor API keys may stand in logs, spans or metrics, whatever goes wrong.
"""

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.guard import Guard
from outrider.api_keys import Access, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.protocol.errors import InternalFailure, NoCapacity, OutriderError, WorkerUnavailable
from outrider.telemetry.logging import LineFormatter
from outrider.telemetry.metrics import render
from outrider.v1 import decoding_pb2, generation_pb2
from tests.integration.gateway_stage import Stage, limits, prompt, script, stage

MARK = "zanzibar"
KEY = make_key()
ACCESS = Access(read_api_keys(key_line("alice", KEY)))
HEADERS = {"authorization": f"Bearer {KEY}"}

pytestmark = pytest.mark.asyncio


def break_tokenizer(on: Stage) -> None:
    def broken(text: str) -> NoReturn:
        raise RuntimeError(f"cannot read {text}")

    on.generation._tokenizer.encode_prompt = broken  # type: ignore[method-assign]


def break_guard(on: Stage) -> None:
    """Outside of what `Generation` guards, on both protocols."""

    def broken(self: Guard, *arguments: Any) -> NoReturn:
        raise RuntimeError(f"cannot admit {arguments} for {MARK}")

    Guard._admit = broken  # type: ignore[method-assign, assignment]


def nothing(on: Stage) -> None:
    pass


REQUESTS = [
    prompt(MARK),
    prompt(MARK, limits=limits(stop=[MARK], max_new_tokens=3)),
    prompt(MARK, sampling=decoding_pb2.Sampling(temperature=-1.0)),
    prompt(MARK, sampling=decoding_pb2.Sampling(grammar=decoding_pb2.Grammar(regex=MARK))),
    prompt(MARK, speculation=decoding_pb2.Speculation(method=MARK)),
    prompt(MARK, request_id=MARK + "\n", cache_salt=MARK),
    prompt(MARK * 1000),
    generation_pb2.GenerateRequest(
        chat=generation_pb2.Chat(messages=[generation_pb2.ChatMessage(role="user", content=MARK)])
    ),
]
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": MARK}]}
BODIES: list[tuple[str, Any]] = [
    ("/generate", {"prompt": MARK}),
    ("/generate", {"prompt": MARK, "stream": True}),
    ("/generate", {"prompt": MARK, "temperature": "x"}),
    ("/generate", {"prompt": MARK, MARK: MARK}),
    ("/generate", {"prompt": [MARK]}),
    ("/generate", {"chat": [{"role": MARK, "content": MARK}]}),
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**CHAT, "stream": True}),
    ("/v1/chat/completions", {**CHAT, "tools": [MARK]}),
    ("/v1/completions", {"model": MARK, "prompt": MARK}),
    ("/generate", {"inputs": MARK}),
    ("/generate", {"inputs": MARK, "parameters": {"stop": [MARK], "grammar": {"type": MARK}}}),
    ("/generate_stream", {"inputs": MARK, "parameters": {"details": True}}),
    ("/", {"inputs": MARK, MARK: MARK}),
    (f"/{MARK}", {"prompt": MARK}),
]
FAULTS: list[tuple[str, Callable[[Stage], None], OutriderError | None]] = [
    ("none", nothing, None),
    ("worker refuses", nothing, NoCapacity(f"no room for {MARK}")),
    ("worker breaks", nothing, InternalFailure(f"what is {MARK}?")),
    ("worker is gone", nothing, WorkerUnavailable("gone")),
    ("tokenizer breaks", break_tokenizer, None),
    ("guard breaks", break_guard, None),
]


async def ask_everything(on: Stage) -> None:
    metadata = tuple(HEADERS.items())
    for request in REQUESTS:
        call = on.stub.Generate(request, metadata=metadata)
        try:
            async for _ in call:
                pass
        except grpc.aio.AioRpcError:
            pass
    for path, body in BODIES:
        await on.http.post(path, json=body, headers=HEADERS)
    await on.http.post("/generate", content=f'{{"prompt": "{MARK}', headers=HEADERS)
    left = on.stub.Generate(prompt(MARK), metadata=metadata)
    left.cancel()


@pytest.mark.parametrize(("fault", "break_it", "error"), FAULTS, ids=[name for name, *_ in FAULTS])
async def test_no_mark_is_left(
    fault: str,
    break_it: Callable[[Stage], None],
    error: OutriderError | None,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for client in ("httpx", "httpcore"):
        caplog.set_level(logging.CRITICAL, client)
    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(LineFormatter("gateway"))
    monkeypatch.setattr(Guard, "_admit", Guard._admit)  # put back what a case breaks
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("gateway.request_record.tracer", lambda: provider.get_tracer("test"))
    worker = script(MARK, hold_after=None if error is None else 1, error=error)
    async with stage(worker, access=ACCESS) as on:
        break_it(on)
        await ask_everything(on)
        metrics = render(on.metrics.registry, "")[0].decode()
    spans = "\n".join(span.to_json() for span in exporter.get_finished_spans())
    assert "outrider_requests_total" in metrics
    if "breaks" in fault and error is None:
        assert "failed unexpectedly: RuntimeError at " in caplog.text
    else:
        assert len(exporter.get_finished_spans()) > 10
    for where in (caplog.text, spans, metrics, "".join(capfd.readouterr())):
        for secret in (MARK, KEY):
            assert secret not in where
