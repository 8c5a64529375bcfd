import pytest

from outrider.supervision.restart_policy import RestartPolicy

POLICY = RestartPolicy(first_delay_s=0.5, max_delay_s=3.0, window_s=60.0, max_crashes=5)


def test_the_wait_doubles_up_to_its_limit() -> None:
    crash_times: list[float] = []
    delays = []
    for time in (0.0, 1.0, 2.0, 3.0):
        crash_times.append(time)
        delays.append(POLICY.delay_s(crash_times))
    assert delays == [0.5, 1.0, 2.0, 3.0]


def test_too_many_crashes_in_the_window_end_it() -> None:
    assert POLICY.delay_s([0.0, 1.0, 2.0, 3.0, 59.9]) is None


def test_old_crashes_are_forgotten() -> None:
    assert POLICY.delay_s([0.0, 1.0, 2.0, 3.0, 60.0]) == 3.0
    assert POLICY.delay_s([0.0, 1.0, 2.0, 3.0, 1000.0]) == 0.5


def test_one_crash_can_be_enough() -> None:
    assert RestartPolicy(max_crashes=1).delay_s([7.0]) is None


@pytest.mark.parametrize(
    "values",
    [
        {"first_delay_s": -1.0},
        {"first_delay_s": 9.0, "max_delay_s": 8.0},
        {"window_s": 0.0},
        {"max_crashes": 0},
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RestartPolicy(**values)  # type: ignore[arg-type]
