"""How close a sampled decision was."""

import numpy as np
import pytest

from outrider.evaluation.margins import noisy_margin
from outrider.protocol.sampling_noise import gumbel

LOGITS = np.linspace(-1.0, 1.0, 8)
TOKENS = np.arange(8, dtype=np.int64)


def test_the_margin_is_the_gap_of_the_two_best_noisy_scores() -> None:
    scores = sorted(LOGITS / 0.5 + gumbel(5, 12, TOKENS))
    assert noisy_margin(LOGITS, 5, 12, 0.5) == pytest.approx(scores[-1] - scores[-2])


def test_a_shift_of_all_logits_changes_nothing() -> None:
    assert noisy_margin(LOGITS + 7.0, 5, 12, 1.0) == pytest.approx(noisy_margin(LOGITS, 5, 12, 1.0))


def test_two_scores_that_tie_have_no_margin() -> None:
    noise = gumbel(5, 12, TOKENS)
    logits = np.where(TOKENS < 2, 50.0 - noise, 0.0)
    assert noisy_margin(logits, 5, 12, 1.0) == pytest.approx(0.0, abs=1e-9)
