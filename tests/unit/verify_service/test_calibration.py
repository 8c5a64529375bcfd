from verify_service.calibration import REPEATS, ROW_COUNTS, measure_cost_table


class Machine:
    """A clock that a forward pass moves: 10 ms and 1 ms a row, more while something else runs."""

    def __init__(self, disturbed: set[int]) -> None:
        self.now = 0.0
        self.passes = 0
        self._disturbed = disturbed

    def forward(self, batch) -> None:
        self.passes += 1
        self.now += 0.010 + 0.001 * len(batch.token_ids)
        if self.passes in self._disturbed:
            self.now += 5.0

    def table(self, slot_count: int = 4096, max_rows: int = 64):
        return measure_cost_table(
            self.forward, lambda: self.now, slot_count, max_rows, synchronize=lambda: None
        )


def truth(counts) -> tuple[int, ...]:
    return tuple(10_000 + 1000 * rows for rows in counts)


def test_a_quiet_machine_gives_its_own_figures():
    table = Machine(disturbed=set()).table()
    assert table.rows == ROW_COUNTS
    assert table.micros == truth(ROW_COUNTS)


def test_slow_moments_leave_no_trace():
    """A whole repeat is slow, and so is one count in each of the others."""
    first = 2  # the first pass only warms up
    slow = {*range(first, first + len(ROW_COUNTS)), first + len(ROW_COUNTS) + 1}
    assert Machine(slow).table().micros == truth(ROW_COUNTS)


def test_a_count_that_was_never_undisturbed_is_bounded_by_the_next_one():
    always_second = {2 + 1 + turn * len(ROW_COUNTS) for turn in range(REPEATS)}
    table = Machine(always_second).table()
    assert table.micros[1] == table.micros[2] == 10_000 + 1000 * ROW_COUNTS[2]
    assert list(table.micros) == sorted(table.micros)


def test_counts_that_do_not_fit_are_left_out():
    table = Machine(set()).table(slot_count=20, max_rows=16)
    assert table.rows == (1, 2, 4, 8, 16)
    assert Machine(set()).table(max_rows=3).rows == (1, 2)
