"""The load of a moment ago."""

from draft_service.drafters.recent_load import RECENT_S, RecentLoad


def test_the_peak_is_remembered_for_a_while():
    load = RecentLoad()
    assert [load.note(count, 0.0) for count in (1, 2, 16, 3)] == [1, 2, 16, 16]
    assert load.note(1, RECENT_S) == 16
    assert load.note(2, RECENT_S + 0.1) == 2


def test_a_load_that_goes_on_is_recent():
    load = RecentLoad()
    for moment in range(100):
        assert load.note(16, float(moment)) == 16
    assert load.note(1, 99.0 + RECENT_S) == 16
