import pytest

from outrider.protocol.errors import InvalidField
from outrider.protocol.messages import CostTable


def test_cost_is_linear_between_points_and_beyond_the_last():
    table = CostTable((1, 4, 8), (100, 160, 320))
    assert [table.micros_at(rows) for rows in (1, 2, 4, 6, 8, 10)] == [100, 120, 160, 240, 320, 400]


@pytest.mark.parametrize(
    ("micros", "most", "rows"),
    [
        (99, 64, 1),
        (100, 64, 1),
        (119, 64, 1),
        (120, 64, 2),
        (320, 64, 8),
        (1e9, 64, 64),
        (401, 64, 10),
    ],
)
def test_rows_within_a_time(micros, most, rows):
    assert CostTable((1, 4, 8), (100, 160, 320)).rows_within(micros, most) == rows


def test_a_single_point_is_flat():
    assert CostTable((1,), (7,)).micros_at(50) == 7


@pytest.mark.parametrize(
    ("rows", "micros"), [((), ()), ((1, 2), (1,)), ((2, 1), (1, 1)), ((0,), (1,)), ((1,), (0,))]
)
def test_bad_tables(rows, micros):
    with pytest.raises(InvalidField, match="cost_table"):
        CostTable(rows, micros)
