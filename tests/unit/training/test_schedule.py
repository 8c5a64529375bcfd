"""Learning rates and the figures that follow from accuracies."""

import pytest

from outrider.training.schedule import Schedule, chain_weights, expected_length


def test_rates_rise_to_the_peak_and_fall_to_the_end():
    schedule = Schedule(peak=1.0, total_steps=101, warmup_steps=10, final_share=0.1)
    rates = [schedule.rate(step) for step in range(101)]
    assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.55)  # half of the way: half between peak and end
    assert rates[-1] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_a_run_of_one_step_has_a_rate():
    assert Schedule(1.0, 1, 0, 0.1).rate(0) == 1.0


def test_chain_weights_and_expected_length():
    assert chain_weights(3, 0.8) == pytest.approx([1.0, 0.8, 0.64])
    assert expected_length([0.5, 0.5, 0.0, 0.9]) == pytest.approx(1 + 0.5 + 0.25)
    assert expected_length([]) == 1.0
