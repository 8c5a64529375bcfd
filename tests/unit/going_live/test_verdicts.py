"""What a service's answers say about it."""

import pytest

from outrider.going_live.lines import Line, Verdict, failed, may_go_live, passed, skipped, warned
from outrider.going_live.verdicts import (
    SERVING,
    HealthSeen,
    ModelSeen,
    Pair,
    Refusal,
    StreamSeen,
    bad_field_line,
    exact_line,
    fits,
    health_line,
    key_line,
    model_lines,
    reach_line,
    stream_line,
)

NONE = Refusal("UNAUTHENTICATED")


def test_only_a_failure_stops_going_live() -> None:
    quiet = [passed("a", ""), warned("b", "", ""), skipped("c", "")]
    assert may_go_live(quiet)
    assert not may_go_live([*quiet, failed("d", "", "")])


def test_whoever_is_not_named_need_not_answer() -> None:
    assert reach_line("gRPC", "h:1", "").verdict is Verdict.PASS
    assert reach_line("HTTP", "h:1", "refused").verdict is Verdict.FAIL
    assert reach_line("HTTP", "h:1", "refused", is_guess=True).verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (HealthSeen(SERVING, 200, "", ""), Verdict.PASS),
        (HealthSeen(SERVING, None, "", ""), Verdict.PASS),
        (HealthSeen(SERVING, 200, "", "UNAVAILABLE"), Verdict.FAIL),
        (HealthSeen(SERVING, 503, "draining", ""), Verdict.FAIL),
        (HealthSeen("NOT_SERVING", 200, "", ""), Verdict.FAIL),
        (HealthSeen("NOT_SERVING", 503, "loading", "UNAVAILABLE"), Verdict.FAIL),
        (HealthSeen("", None, "", ""), Verdict.FAIL),
    ],
)
def test_health_is_good_where_all_agree_and_a_request_succeeds(
    seen: HealthSeen, verdict: Verdict
) -> None:
    assert health_line(seen).verdict is verdict


def test_bad_health_tells_its_reason() -> None:
    assert "(loading)" in health_line(HealthSeen("NOT_SERVING", 503, "loading", "x")).figure


def model(default: str = "ngram", http: tuple[str, ...] | None = ("m",)) -> ModelSeen:
    return ModelSeen("m", 100, ("ngram", "none"), default, http)


def verdicts(lines: list[Line]) -> list[Verdict]:
    return [line.verdict for line in lines]


def test_the_model_is_the_wanted_one_and_the_same_on_both_listeners() -> None:
    assert verdicts(model_lines(model(), "")) == [Verdict.PASS, Verdict.PASS]
    assert verdicts(model_lines(model(http=None), "m")) == [Verdict.PASS, Verdict.PASS]
    assert verdicts(model_lines(model(), "other")) == [Verdict.FAIL, Verdict.PASS]
    assert verdicts(model_lines(model(http=()), "")) == [Verdict.FAIL, Verdict.PASS]
    assert verdicts(model_lines(model("none"), "")) == [Verdict.PASS, Verdict.WARN]


@pytest.mark.parametrize(
    ("times", "rounds", "verdict"),
    [
        ((0.1, 0.2, 0.3, 0.4), 4, Verdict.PASS),
        ((0.4, 0.401, 0.402, 0.403), 4, Verdict.FAIL),
        ((0.4,), 10, Verdict.FAIL),
        ((0.1, 0.4), 10, Verdict.FAIL),
        ((), 10, Verdict.FAIL),
        ((0.1, 0.2), 2, Verdict.SKIPPED),
    ],
)
def test_a_stream_comes_round_by_round(
    times: tuple[float, ...], rounds: int, verdict: Verdict
) -> None:
    assert stream_line("gRPC", StreamSeen(times, rounds)).verdict is verdict


def test_one_token_that_differs_is_found_and_placed() -> None:
    same, other = Pair("qa 1", (1, 2), (1, 2)), Pair("qa 2", (1, 2, 3), (1, 9, 3))
    assert exact_line("greedy", [same], 0).verdict is Verdict.PASS
    line = exact_line("greedy", [same, other], 0)
    assert line.verdict is Verdict.FAIL
    assert line.figure == "1 of 2 answers equal, 5 tokens; qa 2 differs from token 1"
    assert exact_line("greedy", [same, other], 1).verdict is Verdict.WARN
    assert exact_line("greedy", [other, other], 1).verdict is Verdict.FAIL
    assert exact_line("greedy", [], 0).verdict is Verdict.SKIPPED
    assert Pair("", (1, 2), (1, 2, 3)).place == 2


def test_a_bad_value_is_refused_by_its_name() -> None:
    for seen, verdict in (
        (Refusal("400", "f"), Verdict.PASS),
        (Refusal("400"), Verdict.FAIL),
        (Refusal("200", "f"), Verdict.FAIL),
    ):
        assert bad_field_line("HTTP", seen, "400", "f").verdict is verdict


def test_strangers_are_refused_where_keys_are_on() -> None:
    shut, half = {"a": NONE, "b": NONE}, {"a": NONE, "b": Refusal("OK")}
    open_ = {"a": Refusal("OK"), "b": Refusal("OK")}
    assert key_line(shut, True, True).verdict is Verdict.PASS
    assert key_line(half, True, False).verdict is Verdict.FAIL
    assert key_line(open_, False, True).verdict is Verdict.WARN
    assert key_line(open_, False, False).verdict is Verdict.SKIPPED


def test_a_prompt_fits_whatever_the_tokenizer() -> None:
    assert fits("x" * 100, 228, 64)
    assert not fits("x" * 101, 228, 64)
    assert not fits("\u00e4" * 51, 228, 64)
