import random

from hypothesis import given
from hypothesis import strategies as st

from draft_service.drafters.calibration import MAX_PROB, Calibration


def test_raw_probabilities_are_believed_at_first():
    fresh = Calibration(Calibration())
    for raw in (0.0, 0.01, 0.3, 0.97):
        assert fresh.prob("k", 1, raw) == raw
    assert fresh.prob("k", 1, 1.0) == MAX_PROB


def test_an_overconfident_head_is_corrected_to_what_it_reaches():
    """It says 0.6 and 0.9 where 0.3 and 0.8 would be right."""
    rng, table = random.Random(1), Calibration(Calibration())
    for _ in range(2000):
        for raw, truth in ((0.6, 0.3), (0.9, 0.8)):
            table.note("k", 2, raw, rng.random() < truth)
    assert abs(table.prob("k", 2, 0.6) - 0.3) < 0.03
    assert abs(table.prob("k", 2, 0.9) - 0.8) < 0.03


def test_kinds_and_depths_are_apart():
    table = Calibration()
    for _ in range(50):
        table.note("k", 1, 0.5, False)
    assert table.prob("k", 1, 0.5) < 0.1
    assert table.prob("k", 2, 0.5) == table.prob("other", 1, 0.5) == 0.5


def test_sessions_learn_from_one_another_and_more_from_themselves():
    shared = Calibration()
    one, other = Calibration(shared), Calibration(shared)
    for _ in range(40):
        one.note("k", 1, 0.8, False)
    assert one.prob("k", 1, 0.8) < other.prob("k", 1, 0.8) < 0.4


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60), st.floats(0, 1))
def test_results_are_probabilities(outcomes, raw):
    table = Calibration(Calibration())
    for guess, is_right in outcomes:
        table.note("k", 1, guess, is_right)
    assert 0.0 <= table.prob("k", 1, raw) <= MAX_PROB
