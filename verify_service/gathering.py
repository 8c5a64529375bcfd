"""How long a step waits for trees of sessions that were answered a moment ago. Owns no clock.

Without a wait two groups of sessions take turns for ever: each one's trees arrive while the other's
step runs, and every step does half of the work that it could for nearly the same time. A wait is
worth what one step for both saves over two, and no longer than a tree takes to come.
"""

from collections.abc import Iterable
from typing import NamedTuple

from outrider.protocol.messages import CostTable
from verify_service.sessions import VerifySession

FIRST_GUESS_S = 0.005  # until a draft worker has been seen to answer
WEIGHT = 0.2  # of the newest answer in the running mean
SLACK = 1.25  # an answer may take so many times the mean
SLACK_S = 0.0005


class _Away(NamedTuple):
    """A session that was answered and has not sent a tree since.

    Args:
        session: The session.
        rows: Of its last tree; the next one will have about as many.
        answered_at: Seconds.
    """

    session: VerifySession
    rows: int
    answered_at: float


class Gathering:
    """Knows who was answered last, and how soon each draft worker comes back.

    Args:
        cost_table: Of the target.
    """

    def __init__(self, cost_table: CostTable) -> None:
        self._cost_table = cost_table
        self._away: list[_Away] = []
        self._turnarounds: dict[bytes, float] = {}  # seconds, smoothed, by peer

    def answered(self, sessions: Iterable[tuple[VerifySession, int]], now: float) -> None:
        """Sessions that go on were sent a verdict.

        Args:
            sessions: Each with the rows of its tree.
            now: Seconds.
        """
        self._away = [one for one in self._away if self._expected(one) >= now]
        self._away += [_Away(session, rows, now) for session, rows in sessions]

    def wait_until(self, waiting_rows: int, now: float) -> float:
        """Until when the next step had better wait; not after `now` where it should not.

        Args:
            waiting_rows: Of the trees that are there, at least 1.
            now: Seconds.
        """
        self._note_arrivals()
        until, rows = now, 0
        expected = [(self._expected(one), one.rows) for one in self._away]
        for arrival, more_rows in sorted(pair for pair in expected if pair[0] > now):
            rows += more_rows
            if arrival - now <= self._saved_s(waiting_rows, rows):
                until = arrival
        return until

    def _note_arrivals(self) -> None:
        for one in self._away:
            if one.session.tree is not None:
                took = one.session.waiting_since - one.answered_at
                known = self._turnarounds.get(one.session.peer, took)
                self._turnarounds[one.session.peer] = known + WEIGHT * (took - known)
        self._away = [one for one in self._away if one.session.tree is None]

    def _expected(self, one: _Away) -> float:
        """When its tree should be there."""
        turnaround = self._turnarounds.get(one.session.peer, FIRST_GUESS_S)
        return one.answered_at + SLACK * turnaround + SLACK_S

    def _saved_s(self, rows: int, more_rows: int) -> float:
        micros_at = self._cost_table.micros_at
        return (micros_at(rows) + micros_at(more_rows) - micros_at(rows + more_rows)) / 1e6
