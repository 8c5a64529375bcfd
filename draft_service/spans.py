"""Spans of a draft worker: one per request, and under it one per round where it is recorded."""

import time
from collections.abc import Callable

from opentelemetry.trace import Span, set_span_in_context

from draft_service.drafting import RoundDone
from outrider.telemetry import attributes
from outrider.telemetry.tracing import tracer


def record_round(
    parent: Span,
    done: RoundDone,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], int] = time.time_ns,
) -> None:
    """Writes one round's span, back-dated to when it ran; nothing where `parent` is not recorded.

    Args:
        parent: The request's span on this worker.
        done: The round.
        clock: The worker's clock, seconds.
        wall_clock: Nanoseconds since 1970; spans need wall time.
    """
    if not parent.is_recording():
        return
    offset = wall_clock() - round(clock() * 1e9)
    times = done.times
    span = tracer().start_span(
        "outrider.round",
        context=set_span_in_context(parent),
        start_time=round(times.started * 1e9) + offset,
        attributes={
            attributes.ROUND: done.round,
            attributes.DRAFTED: done.drafted_count,
            attributes.ACCEPTED: done.reach.accepted,
            attributes.COMMITTED: len(done.token_ids),
            attributes.DRAFT_US: times.draft_us,
            attributes.WIRE_US: times.wire_us,
            attributes.QUEUE_US: times.queue_us,
            attributes.VERIFY_US: times.verify_us,
        },
    )
    span.end(end_time=round(times.ended * 1e9) + offset)
