"""One stream over all its placements: where a worker is lost, it goes on at another one.

Shell: awaits and reads the clock. Which worker is decided in `worker_table.py`, what a worker may
say in `journal.py`; the tokens are the same wherever they come from.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from gateway.draft_workers import DraftWorkers, Place
from gateway.journal import CommittedRound, Journal
from gateway.patience import Patience
from outrider.protocol.errors import DeadlineExceeded, WorkerUnavailable
from outrider.telemetry.metrics import GatewayMetrics

_logger = logging.getLogger(__name__)


class Placing:
    """Places streams.

    Args:
        workers: Where they may go.
        metrics: Counts those that went on elsewhere.
        failover_timeout_s: How long a stream may be without a worker before it fails, seconds.
    """

    def __init__(
        self, workers: DraftWorkers, metrics: GatewayMetrics, failover_timeout_s: float
    ) -> None:
        self._workers = workers
        self._metrics = metrics
        self._failover_timeout_s = failover_timeout_s

    async def rounds(
        self,
        journal: Journal,
        target_fingerprint: str,
        deadline: float,
        traceparent: str,
        on_placed: Callable[[int], None],
    ) -> AsyncGenerator[CommittedRound, None]:
        """Runs a stream to its end; closing the generator cancels it on its worker.

        Args:
            journal: Of the stream; grows with it.
            target_fingerprint: Of the target that it begins with.
            deadline: Loop time at which it must be over, seconds.
            traceparent: W3C context of the request's span, or "".
            on_placed: Told the epoch of each placement.

        Yields:
            What was committed; the last one has a finish reason.

        Raises:
            OutriderError: It cannot go on anywhere.
        """
        now = asyncio.get_running_loop().time
        wish = journal.wish(target_fingerprint)
        patience = Patience(self._failover_timeout_s)
        while True:
            try:
                until = min(deadline, patience.until)
                async with self._workers.place(wish, until) as place:
                    on_placed(journal.epoch)
                    responses = self._placement(journal, place, deadline - now(), traceparent)
                    async with aclosing(responses):
                        async for committed in responses:
                            patience.progressed()
                            self._workers.worked(place)
                            yield committed
                            if committed.finish_reason is not None:
                                return
            except WorkerUnavailable as error:
                pause_s = patience.lost(now())
                if patience.is_over(now()):
                    raise
                if now() + pause_s >= deadline:
                    raise DeadlineExceeded(
                        f"the deadline passed while no worker could go on: {error.message}"
                    ) from None
                _logger.warning("a stream goes on elsewhere: %s", error.message)
            await asyncio.sleep(pause_s)
            journal.begin_epoch()
            self._metrics.failovers.inc()

    async def _placement(
        self, journal: Journal, place: Place, timeout_s: float, traceparent: str
    ) -> AsyncGenerator[CommittedRound, None]:
        responses = place.client.draft(journal.placement(place.method), timeout_s, traceparent)
        async with aclosing(responses):
            async for response in responses:
                committed = journal.append(response)
                if committed is not None:
                    yield committed
                    if committed.finish_reason is not None:
                        return
        raise WorkerUnavailable("the draft worker ended the stream before its end")
