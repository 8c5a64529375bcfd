"""What a service's figures say about it."""

from datetime import UTC, datetime

import pytest

from outrider.evaluation.load import Load, Point
from outrider.going_live.figures import (
    Budget,
    Ratio,
    load_lines,
    log_lines,
    log_seen,
    resource_lines,
    round_line,
    speed_line,
)
from outrider.going_live.lines import Line, Verdict

SINCE = datetime(2026, 1, 2, tzinfo=UTC)
CLEAN = {
    "outrider_sessions": 0.0,
    "outrider_running_requests": 0.0,
    "outrider_kv_blocks_in_use": 0.0,
    "outrider_failovers_total": 3.0,
}


def point(requests: int = 10, refused: int = 0) -> Point:
    times = ((20.0, 50.0), (5.0, 9.0), 1.5, None, (100.0, 300.0))
    return Point("", Load(rate=2), requests, refused, 40.0, 2.0, *times)


def failures(lines: list[Line]) -> list[str]:
    return [line.name for line in lines if line.verdict is Verdict.FAIL]


def test_latencies_are_figures_unless_there_is_a_budget() -> None:
    lines = load_lines(point(), Budget(), [])
    assert failures(lines) == []
    assert [line.figure for line in lines] == [
        "10 answered, 0 not",
        "20 ms, 50 ms",
        "100 ms, 300 ms",
        "40.0 at 2 a second",
    ]
    assert failures(load_lines(point(), Budget(50.0, 300.0), [])) == []
    late = failures(load_lines(point(), Budget(49.0, 299.0), []))
    assert late == ["first token, p50 and p99", "whole answer, p50 and p99"]


def test_a_request_that_is_not_answered_fails_the_load_and_says_why() -> None:
    lines = load_lines(point(refused=2), Budget(), ["QUEUE_FULL", "QUEUE_FULL", "x"])
    assert failures(lines) == ["answers at 2 a second"]
    assert lines[0].figure == "10 answered, 2 not: QUEUE_FULL"
    assert len(load_lines(point(0, 2), Budget(), ["x"])) == 1


@pytest.mark.parametrize(
    ("ratio", "method", "verdict"),
    [
        (Ratio(1.5, 1.2, 1.8), "ngram", Verdict.PASS),
        (Ratio(0.9, 0.7, 1.1), "ngram", Verdict.PASS),  # not known to be slower
        (Ratio(0.8, 0.7, 0.9), "ngram", Verdict.WARN),
        (None, "ngram", Verdict.SKIPPED),
        (Ratio(1.0, 0.9, 1.1), "none", Verdict.SKIPPED),
    ],
)
def test_speculation_should_pay(ratio: Ratio | None, method: str, verdict: Verdict) -> None:
    assert speed_line(ratio, method).verdict is verdict


def test_rounds_should_bring_more_than_a_token() -> None:
    assert round_line(30, 20, "ngram").figure == "1.50 in 20 rounds, ngram"
    assert round_line(20, 20, "ngram").verdict is Verdict.WARN
    assert round_line(20, 20, "none").verdict is Verdict.PASS
    assert round_line(0, 0, "ngram").verdict is Verdict.SKIPPED


def test_everything_is_given_back() -> None:
    lines = resource_lines(CLEAN, CLEAN, [])
    assert [line.verdict for line in lines] == [Verdict.PASS, Verdict.PASS]
    for name, value in CLEAN.items():
        after = CLEAN | {name: value + 1}
        (kept, moved) = resource_lines(CLEAN, after, [])
        is_move = name == "outrider_failovers_total"
        assert moved.verdict is (Verdict.WARN if is_move else Verdict.PASS), name
        assert kept.verdict is (Verdict.PASS if is_move else Verdict.FAIL), name


def test_without_pages_nothing_is_said_and_a_silent_page_is_a_fault() -> None:
    assert [line.verdict for line in resource_lines({}, {}, [])] == [Verdict.SKIPPED]
    assert failures(resource_lines({}, {}, ["h:1: refused"])) == ["metrics page"]


def test_a_log_is_judged_by_what_was_written_during_the_check() -> None:
    text = (
        "2026-01-01T23:59:59.000Z warning gateway gateway.readiness: not serving\n"
        "2026-01-02T00:00:01.000Z info    gateway gateway: a warning about nothing\n"
    )
    old = log_seen("a.log", text, SINCE)
    assert (old.line_count, len(old.old), len(old.new)) == (2, 1, 0)
    new = log_seen("b.log", text + "2026-01-02T00:00:02.000Z error   draft x: y\n", SINCE)
    assert len(new.new) == 1
    quiet = log_seen("c.log", text.splitlines()[1], SINCE)
    empty = log_seen("d.log", "", SINCE)
    found = [line.verdict for line in log_lines([old, new, quiet, empty])]
    assert found == [Verdict.WARN, Verdict.FAIL, Verdict.PASS, Verdict.WARN]
    assert log_lines([])[0].verdict is Verdict.SKIPPED


def test_logs_in_json_are_read_too() -> None:
    line = '{"time": "2026-01-02T00:00:02Z", "level": "ERROR", "message": "x"}'
    assert len(log_seen("a.log", line, SINCE).new) == 1
    assert not log_seen("a.log", line.replace("ERROR", "INFO"), SINCE).new
