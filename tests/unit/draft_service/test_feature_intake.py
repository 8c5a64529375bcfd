import pytest

from draft_service.feature_intake import FeatureIntake
from outrider.protocol.features import TensorType
from outrider.protocol.messages import FeatureRows

ROW_SIZE = 12


def rows(first_row: int, row_count: int, row_size: int = ROW_SIZE) -> FeatureRows:
    data = bytes(row_count * row_size * 4)
    return FeatureRows(b"s" * 16, 0, first_row, row_count, row_size, TensorType.FLOAT32, data)


def test_committed_rows_are_due_at_once():
    intake = FeatureIntake(ROW_SIZE, 0)
    assert intake.take(rows(0, 4), possible_rows=9)
    assert intake.take(rows(4, 1), possible_rows=9)
    assert intake.due(committed_rows=5) == [rows(0, 4), rows(4, 1)]
    assert intake.due(committed_rows=5) == []


def test_rows_of_a_round_wait_for_its_verdict():
    intake = FeatureIntake(ROW_SIZE, 0)
    assert intake.take(rows(0, 7), possible_rows=9)
    assert intake.due(committed_rows=5) == []
    assert not intake.is_behind(committed_rows=5)
    assert intake.due(committed_rows=7) == [rows(0, 7)]


@pytest.mark.parametrize(
    "bad",
    [rows(3, 1), rows(5, 1), rows(0, 9), rows(4, 6), rows(4, 1, ROW_SIZE // 3)],
    ids=["repeated", "gap", "before", "impossible", "one layer for three (B42)"],
)
def test_what_does_not_fit_is_dropped_and_changes_nothing(bad):
    intake = FeatureIntake(ROW_SIZE, 4)
    assert not intake.take(bad, possible_rows=9)
    assert intake.due(committed_rows=99) == []
    assert intake.take(rows(4, 5), possible_rows=9)


def test_features_that_stay_away_are_missed():
    intake = FeatureIntake(ROW_SIZE, 2)
    assert not intake.is_behind(committed_rows=2)
    assert intake.is_behind(committed_rows=3)
    intake.take(rows(2, 2), possible_rows=9)
    assert not intake.is_behind(committed_rows=4)
    assert intake.is_behind(committed_rows=5)
