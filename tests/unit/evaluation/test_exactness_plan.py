"""Rows, seeds and verdicts of an exactness run."""

from dataclasses import replace

from outrider.evaluation.exactness_plan import (
    Expected,
    Row,
    judge,
    plan_rows,
    seed_for,
    with_margins,
)
from outrider.evaluation.prompts import Prompt

PROMPT = Prompt("qa", 7, 12, "Who?")


def test_every_method_runs_alone_and_together_in_both_modes() -> None:
    rows = plan_rows(("greedy", "sampled"), ("ngram", "none"), (1, 8))
    assert [row.name for row in rows] == [
        "greedy, ngram, alone",
        "greedy, none, alone",
        "greedy, ngram, 8 at a time",
        "greedy, none, 8 at a time",
        "sampled, none, alone",
        "sampled, ngram, alone",
        "sampled, ngram, 8 at a time",
        "sampled, none, 8 at a time",
    ]
    assert [row.is_yardstick for row in rows] == [False] * 4 + [True] + [False] * 3


def test_sampled_rows_have_their_yardstick_even_if_plain_decoding_is_not_asked_for() -> None:
    rows = plan_rows(("sampled",), ("ngram",), (8,))
    assert rows == [Row("sampled", "none", 8, is_yardstick=True), Row("sampled", "ngram", 8)]


def test_a_seed_depends_on_the_place_only_and_stays_in_64_bits() -> None:
    assert seed_for(PROMPT, 100) == 112
    assert seed_for(replace(PROMPT, text="other"), 100) == 112
    assert seed_for(PROMPT, 2**64 - 1) == 11


def test_a_row_passes_only_without_unforgiven_mismatches() -> None:
    row = Row("greedy", "ngram", 1)
    expected = {("qa", 7): Expected((1, 2), (0.5, 0.01)), ("qa", 8): Expected((3,), (0.5,))}
    answers = {("qa", 7): (1, 9), ("qa", 8): (3,)}
    strict = judge(row, answers, expected, tolerance=None)
    assert not strict.passed
    assert list(strict.mismatches) == [("qa", 7)]
    assert (strict.tally.equal, strict.tally.tokens) == (1, 3)
    assert judge(row, answers, expected, tolerance=0.02).passed
    assert judge(row, {("qa", 8): (3,)}, expected, tolerance=None).passed


def test_margins_that_come_later_are_judged_again() -> None:
    row = Row("sampled", "ngram", 1)
    expected = {("qa", 7): Expected((1, 2)), ("qa", 8): Expected((3, 4))}
    verdict = judge(row, {("qa", 7): (1, 9), ("qa", 8): (3,)}, expected, tolerance=0.02)
    assert verdict.tally.beyond_tolerance == 2
    verdict = with_margins(verdict, {("qa", 7): 0.01}, tolerance=0.02)
    assert verdict.mismatches["qa", 7].margin == 0.01
    assert (verdict.tally.mismatches, verdict.tally.beyond_tolerance) == (2, 1)
    assert not verdict.passed
