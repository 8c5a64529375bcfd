"""The pure comparison of ids."""

import pytest

from outrider.evaluation.comparison import Mismatch, first_mismatch, tally


def test_equal_sequences_have_no_mismatch() -> None:
    assert first_mismatch((3, 1, 4), [3, 1, 4], (0.5, 0.5, 0.5)) is None
    assert first_mismatch((), ()) is None


@pytest.mark.parametrize(
    ("actual", "wanted"),
    [
        ((3, 9, 9), Mismatch(1, 1, 9, 0.25)),
        ((9, 1, 4), Mismatch(0, 3, 9, 0.5)),
        ((3, 1, 5), Mismatch(2, 4, 5, 0.125)),
    ],
)
def test_the_first_difference_is_reported_with_its_margin(
    actual: tuple[int, ...], wanted: Mismatch
) -> None:
    assert first_mismatch((3, 1, 4), actual, (0.5, 0.25, 0.125)) == wanted


def test_an_answer_that_stops_early_or_goes_on_has_no_margin() -> None:
    margins = (0.5, 0.25, 0.125)
    assert first_mismatch((3, 1, 4), (3, 1), margins) == Mismatch(2, 4, None, None)
    assert first_mismatch((3, 1, 4), (3, 1, 4, 7), margins) == Mismatch(3, None, 7, None)


def test_margins_may_be_unknown() -> None:
    assert first_mismatch((3, 1), (3, 2)) == Mismatch(1, 1, 2, None)


@pytest.mark.parametrize(
    ("margin", "tolerance", "forgiven"),
    [
        (0.001, None, False),
        (0.001, 0.001, True),
        (0.0011, 0.001, False),
        (None, 100.0, False),
        (0.0, 0.0, True),
    ],
)
def test_only_a_known_small_margin_is_forgiven(
    margin: float | None, tolerance: float | None, forgiven: bool
) -> None:
    assert Mismatch(0, 1, 2, margin).is_within(tolerance) is forgiven


def test_the_tally_counts_pairs_tokens_and_what_is_forgiven() -> None:
    found = [None, Mismatch(0, 1, 2, 0.001), Mismatch(4, 1, 2, 0.5)]
    counts = tally([10, 20, 30], found, tolerance=0.01)
    assert (counts.prompts, counts.tokens, counts.equal) == (3, 60, 1)
    assert (counts.mismatches, counts.beyond_tolerance) == (2, 1)
