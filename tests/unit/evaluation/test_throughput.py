"""Rates, ratios and the split of a round."""

import pytest

from outrider.evaluation.throughput import (
    Rounds,
    Sample,
    Timing,
    decode_rate,
    rate_ratio,
    split_of_round,
    summarise,
)


def test_the_decode_rate_leaves_out_first_messages_and_pools_over_time() -> None:
    timings = [Timing(11, 1, 1.0, 2.0), Timing(34, 4, 0.5, 5.5)]
    assert decode_rate(timings) == pytest.approx(40 / 6)
    assert decode_rate([Timing(1, 1, 1.0, 1.0)]) == 0.0


def test_the_ratio_of_a_constant_factor_is_certain() -> None:
    slow = [Timing(11, 1, 0.1, 0.1 + seconds) for seconds in (1.0, 2.0, 4.0)]
    fast = [Timing(11, 1, 0.1, 0.1 + seconds / 1.5) for seconds in (1.0, 2.0, 4.0)]
    ratio = rate_ratio(fast, slow)
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1.5, 1.5, 1.5))


def test_the_interval_widens_with_disagreement_and_repeats_with_its_seed() -> None:
    slow = [Timing(11, 1, 0.0, 1.0)] * 12
    mixed = [Timing(11, 1, 0.0, 1.0 if n % 2 else 0.5) for n in range(12)]
    ratio = rate_ratio(mixed, slow)
    assert ratio is not None
    assert ratio.value == pytest.approx(4 / 3)
    assert 1.0 <= ratio.low < 1.25 < 1.45 < ratio.high <= 2.0
    assert rate_ratio(mixed, slow) == ratio


def test_prompts_without_decoding_on_either_side_are_left_out_of_the_ratio() -> None:
    short = Timing(1, 1, 1.0, 1.0)
    assert rate_ratio([short], [Timing(11, 1, 0.0, 1.0)]) is None
    ratio = rate_ratio([short, Timing(11, 1, 0.0, 1.0)], [Timing(11, 1, 0.0, 2.0)] * 2)
    assert ratio is not None
    assert ratio.value == pytest.approx(2.0)


def test_what_the_report_does_not_explain_is_other() -> None:
    rounds = Rounds(10, 0, 0, draft_us=100, wire_us=200, queue_us=300, verify_us=9000)
    assert split_of_round(rounds, stream_s=0.01) == pytest.approx(
        {"draft": 10, "wire": 20, "queue": 30, "verify": 900, "other": 40}
    )
    assert split_of_round(Rounds(), 1.0) == {}


def test_a_summary_adds_up() -> None:
    rounds = Rounds(10, 40, 10, draft_us=0, wire_us=20_000, queue_us=0, verify_us=900_000)
    sample = Sample("sum", Timing(20, 2, 0.1, 1.0), 1.0, rounds)
    summary = summarise([sample, sample])
    assert summary.tokens == 40
    assert summary.decode_rate == pytest.approx(20.0)
    assert summary.whole_rate == pytest.approx(20.0)
    assert summary.first_ms == pytest.approx(100.0)
    assert summary.tokens_per_round == pytest.approx(2.0)
    assert summary.acceptance == pytest.approx(0.25)
    assert summary.services_share == pytest.approx(0.1)
    assert summary.services_share_of_decode == pytest.approx(0.1 / 0.9)


def test_a_baseline_has_no_rounds() -> None:
    summary = summarise([Sample("sum", Timing(20, 1, 0.1, 1.0), 1.0)])
    assert summary.round_us == {}
    assert (summary.tokens_per_round, summary.acceptance, summary.services_share) == (0, 0, 0)
