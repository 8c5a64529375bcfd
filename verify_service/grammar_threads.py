"""Reads grammars beside the worker's loop: a large JSON schema takes a fifth of a second, and the
other sessions shall not wait for it.

Shell: owns the threads. Small grammars are read at once, which is sooner than the next turn.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol

from outrider.protocol.errors import BadGrammar
from outrider.protocol.grammar import Grammar
from verify_service.step import Follower

MAX_THREADS = 2
AT_ONCE_S = 0.005

logger = logging.getLogger(__name__)


class GrammarReader(Protocol):
    """Reads one grammar."""

    def follow(self, grammar: Grammar) -> Follower:
        """Begins a session.

        Raises:
            BadGrammar: The grammar is not one.
        """


class FutureFollower:
    """A `PendingFollower` that a thread works on."""

    def __init__(self, future: "Future[Follower]") -> None:
        self._future = future

    def ready(self) -> Follower | None:
        """As `PendingFollower.ready`."""
        return self._future.result() if self._future.done() else None


class GrammarThreads:
    """A `GrammarSource`.

    Args:
        reader: May be called from any thread.
    """

    def __init__(self, reader: GrammarReader) -> None:
        self._reader = reader
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="grammar")

    def begin(self, grammar: Grammar, token_ids: Sequence[int]) -> FutureFollower:
        """As `GrammarSource.begin`."""
        future = self._threads.submit(self._read, grammar, tuple(token_ids))
        wait([future], AT_ONCE_S)
        return FutureFollower(future)

    def _read(self, grammar: Grammar, token_ids: Sequence[int]) -> Follower:
        try:
            follower = self._reader.follow(grammar)
            follower.extend(token_ids)
        except BadGrammar:
            raise
        except Exception as error:
            logger.exception("a grammar could not be read")
            raise BadGrammar(f"could not be read ({type(error).__name__})") from error
        return follower
