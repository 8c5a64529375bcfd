"""Spans of a verify worker: one per traced session and round, under the session's own trace."""

import time
from collections.abc import Callable, Sequence

from outrider.protocol.messages import short_id
from outrider.telemetry import attributes
from outrider.telemetry.tracing import parent_context, tracer
from verify_service.engine import Decided


class RoundSpans:
    """Writes the spans of a finished step, back-dated to when it ran.

    Args:
        clock: The worker's clock, seconds.
        wall_clock: Nanoseconds since 1970; spans need wall time.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock

    def record(self, decided: Sequence[Decided]) -> None:
        """Writes one span per traced session."""
        traced = [one for one in decided if one.session.opened.traceparent]
        if not traced:
            return
        offset = self._wall_clock() - round(self._clock() * 1e9)
        for one in traced:
            verdict = one.verdict
            bonus = 0 if verdict.bonus_token is None else 1
            span = tracer().start_span(
                "outrider.verify",
                context=parent_context(one.session.opened.traceparent),
                start_time=round(one.started * 1e9) + offset,
                attributes={
                    attributes.SESSION_ID: short_id(verdict.session_id),
                    attributes.EPOCH: verdict.epoch,
                    attributes.ROUND: verdict.round,
                    attributes.ACCEPTED: len(verdict.accepted_indices),
                    attributes.COMMITTED: len(verdict.accepted_indices) + bonus,
                    attributes.QUEUE_US: verdict.queue_us,
                    attributes.VERIFY_US: verdict.verify_us,
                    attributes.BATCH_ROWS: verdict.batch_rows,
                    attributes.BATCH_SESSIONS: len(decided),
                },
            )
            span.end(end_time=round(one.ended * 1e9) + offset)
