"""Means over chains, from sums."""

import pytest

from outrider.training.figures import ChainSums, Figures, figures_of


def test_each_sum_is_divided_by_its_own_count():
    figures = figures_of(
        ChainSums(
            losses=[20.0, 9.0, 0.0],
            counted=[10.0, 6.0, 0.0],
            hits=[5.0, 3.0, 0.0],
            reached=[10.0, 8.0, 0.0],
            unbroken=[5.0, 2.0, 0.0],
            chains=[10.0, 10.0, 10.0],
        )
    )
    assert figures.losses == (2.0, 1.5, 0.0)
    assert figures.accuracies == (0.5, 0.375, 0.0)
    assert figures.expected_length == pytest.approx(1 + 0.5 + 0.5 * 0.375)
    assert figures.chain_length == pytest.approx(1 + 0.5 + 0.2)
    assert Figures.from_document({**figures.document(), "step": 3}) == figures
