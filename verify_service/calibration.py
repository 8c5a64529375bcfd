"""Measures the target's cost table at start-up: the time of a forward pass by its rows."""

from collections.abc import Callable

from outrider.modeling.ragged_batch import RaggedBatch, SegmentRows, build_ragged_batch
from outrider.protocol.messages import CostTable

ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64)
REPEATS = 6
CONTEXT_ROWS = 512  # attention's share grows with the context: a short one flatters large trees


def measure_cost_table(
    forward: Callable[[RaggedBatch], object],
    clock: Callable[[], float],
    slot_count: int,
    max_rows: int,
    synchronize: Callable[[], None],
) -> CostTable:
    """Times trees of one session on rows that nobody owns yet.

    Args:
        forward: One pass of the target.
        clock: Seconds, monotonic.
        slot_count: Rows of the pool.
        max_rows: Largest count of interest, at least 1.
        synchronize: Waits for the device.

    Returns:
        Microseconds for counts up to `max_rows`. Whatever else the machine does only adds time, so
        each figure is the fastest of the repeats, and none is above that of a larger count.
    """
    context = min(CONTEXT_ROWS, max(0, slot_count - max_rows))
    counts = [rows for rows in ROW_COUNTS if rows <= max_rows and context + rows <= slot_count]
    batches = [build_ragged_batch([_star(rows, context)]) for rows in counts]
    fastest = [float("inf")] * len(counts)
    forward(batches[-1])
    # Counts take turns, so that a slow moment of the machine does not fall on one of them alone.
    for _ in range(REPEATS):
        for index, batch in enumerate(batches):
            fastest[index] = min(fastest[index], _time_once(forward, batch, clock, synchronize))
    micros = [max(1, round(min(fastest[index:]) * 1e6)) for index in range(len(counts))]
    return CostTable(tuple(counts), tuple(micros))


def _time_once(
    forward: Callable[[RaggedBatch], object],
    batch: RaggedBatch,
    clock: Callable[[], float],
    synchronize: Callable[[], None],
) -> float:
    started = clock()
    forward(batch)
    synchronize()
    return clock() - started


def _star(rows: int, context: int) -> SegmentRows:
    """A root with `rows - 1` children behind `context` cached rows."""
    parents = [-1] + [0] * (rows - 1)
    return SegmentRows([0] * rows, parents, context, range(context + rows), logits_from=0)
