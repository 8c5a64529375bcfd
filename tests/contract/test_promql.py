"""The reader of queries finds series and nothing else."""

import pytest

from tests.contract.promql import outcomes_of, series_of


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a", {"a"}),
        ("a:b:rate5m - 1 < 0.5 * (avg_over_time(c[1d]) - 1)", {"a:b:rate5m", "c"}),
        (
            'sum by (le, job) (rate(x_bucket{le="2.5", y=~"a}|b"}[$__rate_interval])) or vector(0)',
            {"x_bucket"},
        ),
        ("a / ignoring(part) group_left() sum(rate(b[5m]))", {"a", "b"}),
        ("sum without (state) (a) and on (instance) b > 1e3", {"a", "b"}),
        ("time() - process_start_time_seconds", {"process_start_time_seconds"}),
        ("histogram_quantile(0.95, sum by (le) (rate(q_bucket[5m])))", {"q_bucket"}),
    ],
)
def test_series_are_found(query: str, expected: set[str]) -> None:
    assert series_of(query) == expected


def test_outcomes_are_found() -> None:
    assert outcomes_of('a{outcome=~"x|y"} / b{outcome="z"} + c{reason="no"}') == {"x", "y", "z"}
