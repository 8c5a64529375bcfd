import io

import grpc
import pytest
from rich.console import Console

from outrider.generate import GenerateOptions, Timing, build_request, explain, report_table
from outrider.v1 import decoding_pb2, generation_pb2


@pytest.mark.parametrize(
    ("chat", "has_template", "expected"),
    [
        (None, True, "chat"),
        (None, False, "prompt"),
        (True, False, "chat"),  # the gateway says what is missing
        (False, True, "prompt"),
    ],
)
def test_a_prompt_is_a_message_where_the_model_has_a_template(
    chat: bool | None, has_template: bool, expected: str
) -> None:
    request = build_request(GenerateOptions("hi", chat), has_template)
    assert request.WhichOneof("input") == expected
    assert (request.chat.messages[0].content if expected == "chat" else request.prompt) == "hi"


def test_what_was_not_chosen_stays_absent() -> None:
    request = build_request(GenerateOptions("hi", False), False)
    assert not request.sampling.HasField("seed")
    assert not request.limits.HasField("max_new_tokens")
    request = build_request(GenerateOptions("hi", False, 0, 0.5, 0, "none"), False)
    assert request.sampling.HasField("seed")
    assert request.limits.HasField("max_new_tokens")
    assert (request.sampling.temperature, request.speculation.method) == (0.5, "none")


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; Connection refused",
            "outrider: no service at a:1; start one with `make serve`",
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "no draft worker answers",
            "outrider: UNAVAILABLE: no draft worker answers",
        ),
        (
            grpc.StatusCode.INVALID_ARGUMENT,
            "sampling.seed: failed",
            "outrider: INVALID_ARGUMENT: sampling.seed: failed",
        ),
    ],
)
def test_a_failure_says_what_to_do(code: grpc.StatusCode, details: str, expected: str) -> None:
    assert explain("a:1", code, details) == expected


def test_the_report_has_the_numbers_of_the_stream() -> None:
    last = generation_pb2.GenerateResponse(
        finish_reason=decoding_pb2.FINISH_REASON_STOP,
        usage=generation_pb2.Usage(prompt_tokens=7, completion_tokens=50),
        speculation_report=decoding_pb2.SpeculationReport(
            rounds=20,
            drafted=60,
            accepted=30,
            tokens_per_round=2.5,
            draft_us=100,
            wire_us=200,
            queue_us=0,
            verify_us=700,
            method="ngram",
        ),
    )
    out = io.StringIO()
    Console(file=out, width=80).print(report_table(last, Timing(start=1.0, first=1.25, last=3.0)))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert lines == [
        "tokens 50 (+ 7 of the prompt) stop",
        "speed 25.0 tokens/s 2.00 s",
        "first token 250 ms",
        "method ngram",
        "rounds 20 2.50 tokens per round",
        "drafted 60 50% accepted",
        "accepted 30",
        "time draft 10%, wire 20% queue 0%, verify 70%",
    ]


def test_an_empty_answer_has_a_report_too() -> None:
    out = io.StringIO()
    table = report_table(generation_pb2.GenerateResponse(), Timing(start=1.0, last=1.0))
    Console(file=out, width=80).print(table)
    assert "0.0 tokens/s" in out.getvalue()
