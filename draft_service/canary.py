"""Measures a head where it serves, before it serves: a few short streams through the verify worker.

What a wrong file, a wrong layer or a lost feature costs is seen here as it would be by users: in
tokens that are accepted. Owns neither sockets nor tensors; the streams are the worker's own.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import aclosing

from draft_service.drafting import Drafting, Totals
from draft_service.streams import StreamRunner, Streams
from outrider.canary import CanaryResult, UselessHead, check
from outrider.protocol.decoding import DecodeLimits, Sampling, Speculation
from outrider.protocol.errors import OutriderError, WorkerUnavailable
from outrider.protocol.messages import ID_BYTES
from outrider.protocol.session import DraftSession

MAX_NEW_TOKENS = 30  # a session drops its head after more rounds than these
FEWEST_SECOND = 10  # second guesses that say something; a good head has 20, half of them right
RETRY_S = 1.0  # behind a verify worker that is not there yet, or was lost
SPECULATION = Speculation(max_nodes=3, depth=2, parallel_degree=1)  # the best guess, twice

logger = logging.getLogger(__name__)


class Canary:
    """Runs once, when a verify worker is there.

    Args:
        method: Draft method that uses the head alone; empty: there is nothing to measure.
        prompts: Token ids of each stream's prompt; none: there is nothing to measure.
    """

    def __init__(self, method: str = "", prompts: Sequence[Sequence[int]] = ()) -> None:
        self._method, self._prompts = method, prompts
        self.is_pending = bool(method and prompts)

    async def run(self, streams: Streams, worker: StreamRunner) -> None:
        """Measures until there is a result; returns at once where there is nothing to measure.

        Raises:
            UselessHead: The head is not worth serving with.
        """
        while self.is_pending:
            try:
                totals = await asyncio.gather(
                    *(self._stream(streams, worker, prompt) for prompt in self._prompts)
                )
            except WorkerUnavailable as error:
                logger.info("canary: not yet: %s", error.message)
                await asyncio.sleep(RETRY_S)
                continue
            except OutriderError as error:
                logger.warning("canary: left out: %s", error.message)
            else:
                self._judge(totals)
            self.is_pending = False

    async def _stream(
        self, streams: Streams, worker: StreamRunner, prompt: Sequence[int]
    ) -> Totals:
        session = DraftSession(
            session_id=os.urandom(ID_BYTES),
            epoch=0,
            prompt_length=len(prompt),
            token_ids=list(prompt),
            sampling=Sampling(),
            limits=DecodeLimits(max_new_tokens=MAX_NEW_TOKENS, ignore_eos=True),
        )
        # How good the head is, and not what it is worth here: that changes with the load.
        drafting = Drafting(session, SPECULATION, self._method, wants_full_trees=True)
        async with aclosing(streams.run(worker, drafting)) as rounds:
            async for _ in rounds:
                pass
        return drafting.totals

    def _judge(self, totals: Sequence[Totals]) -> None:
        offered = _first_two([one.offered_by_depth for one in totals])
        accepted = _first_two([one.accepted_by_depth for one in totals])
        if not offered[0]:
            raise UselessHead("the head proposed nothing at all; the lines above say why")
        first = accepted[0] / offered[0]
        # Where second guesses were too few to judge, the first ones speak for them.
        second = accepted[1] / offered[1] if offered[1] >= FEWEST_SECOND else first
        check(CanaryResult(first, second, offered[0]))
        logger.info(
            "canary: the head's first guess was right for %.0f%% of %d tokens, the next for "
            "%.0f%% of %d",
            100 * first, offered[0], 100 * second, offered[1],
        )  # fmt: skip


def _first_two(counts: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Sums of the counts at depths 1 and 2, where a stream got so deep."""
    return sum(sum(one[:1]) for one in counts), sum(sum(one[1:2]) for one in counts)
