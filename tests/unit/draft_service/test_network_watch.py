from draft_service.drafters.network_watch import (
    LATE_WINDOWS,
    WINDOW,
    DropReason,
    NetworkWatch,
    RoundCost,
)
from draft_service.drafters.pass_times import PassTimes

FAIR = RoundCost(network=100.0, verify=50.0, plain=1000.0)


def verdicts(outcomes: list[tuple[bool, int, RoundCost]]) -> list[DropReason | None]:
    watch = NetworkWatch()
    return [watch.note(*outcome) for outcome in outcomes]


def test_nothing_is_decided_before_the_window_is_full():
    assert verdicts([(False, 0, FAIR)] * (WINDOW - 1)) == [None] * (WINDOW - 1)


def test_a_head_that_is_hardly_ever_right_is_useless():
    assert verdicts([(False, 0, FAIR)] * WINDOW)[-1] is DropReason.USELESS
    assert verdicts([(True, 1, FAIR), *[(False, 0, FAIR)] * (WINDOW - 1)])[-1] is not None


def every(rounds: int, count: int) -> list[tuple[bool, int, RoundCost]]:
    """One token is saved every so many rounds."""
    return [(place % rounds == 0, int(place % rounds == 0), FAIR) for place in range(count)]


def test_a_head_is_late_where_it_costs_more_than_it_saves_for_long():
    """A token saved in one round of ten is worth 100 of 150 microseconds spent."""
    results = verdicts(every(10, LATE_WINDOWS * WINDOW))
    assert results[:-1] == [None] * (LATE_WINDOWS * WINDOW - 1)
    assert results[-1] is DropReason.LATE
    assert set(verdicts(every(4, 4 * WINDOW))) == {None}


def test_one_slow_window_is_forgiven():
    windows = every(10, WINDOW) + every(4, WINDOW)
    assert set(verdicts(windows * 3)) == {None}


def test_each_window_is_judged_for_itself():
    good, bad = (True, 1, FAIR), (False, 0, FAIR)
    results = verdicts([good] * WINDOW + [bad] * WINDOW)
    assert results[WINDOW - 1] is None
    assert results[-1] is DropReason.USELESS


def test_times_are_known_by_size_and_guessed_from_the_nearest():
    times = PassTimes()
    assert times.micros(4) == 0.0
    times.note(4, 100.0)
    assert times.micros(3) == times.micros(4) == times.micros(64) == 100.0
    times.note(64, 900.0)
    assert times.micros(64) == 900.0
    assert times.micros(8) == 100.0
    for _ in range(100):
        times.note(4, 200.0)
    assert 190.0 < times.micros(4) <= 200.0
