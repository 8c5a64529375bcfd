import io

import pytest
from rich.console import Console

from outrider.client import (
    Answer,
    FinishReason,
    InvalidField,
    OutriderError,
    Report,
    ServiceUnreachable,
    Usage,
    WorkerUnavailable,
)
from outrider.client.fields import build_request
from outrider.generate import GenerateOptions, Timing, explain, report_table, request_fields


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
    request = build_request(request_fields(GenerateOptions("hi", chat), has_template))
    assert request.WhichOneof("input") == expected
    assert (request.chat.messages[0].content if expected == "chat" else request.prompt) == "hi"


def test_what_was_not_chosen_stays_absent() -> None:
    request = build_request(request_fields(GenerateOptions("hi", False), False))
    assert not request.sampling.HasField("seed")
    assert not request.limits.HasField("max_new_tokens")
    chosen = GenerateOptions("hi", False, 0, 0.5, 0, "none")
    request = build_request(request_fields(chosen, False))
    assert request.sampling.HasField("seed")
    assert request.limits.HasField("max_new_tokens")
    assert (request.sampling.temperature, request.speculation.method) == (0.5, "none")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ServiceUnreachable("no service answers"),
            "outrider: no service at a:1; start one with `make serve`",
        ),
        (
            WorkerUnavailable("no draft worker answers"),
            "outrider: UNAVAILABLE: no draft worker answers",
        ),
        (
            InvalidField("sampling.seed", "failed"),
            "outrider: INVALID_ARGUMENT: sampling.seed: failed",
        ),
    ],
)
def test_a_failure_says_what_to_do(error: OutriderError, expected: str) -> None:
    assert explain("a:1", error) == expected


def answer(tokens: int, report: Report) -> Answer:
    usage = Usage(prompt_tokens=7, completion_tokens=tokens)
    return Answer("", (), 0, (), (), 0, "", FinishReason.STOP, usage, report, ())


def test_the_report_has_the_numbers_of_the_stream() -> None:
    report = Report(20, 60, 30, 2.5, 100, 200, 0, 700, "ngram", (), ())
    out = io.StringIO()
    Console(file=out, width=80).print(report_table(answer(50, report), Timing(1.0, 1.25, 3.0)))
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
    report = Report(0, 0, 0, 0.0, 0, 0, 0, 0, "", (), ())
    table = report_table(answer(0, report), Timing(start=1.0, last=1.0))
    Console(file=out, width=80).print(table)
    assert "0.0 tokens/s" in out.getvalue()
