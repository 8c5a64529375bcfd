"""Passes of a head or a draft model over the rows of many sessions, timed; what if one goes wrong.

Whatever goes wrong, the sessions concerned lose their network and their streams go on.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from draft_service.drafters.draft_network import DraftNetwork, Guesses, NodeRows, Ranking, TrueRows
from draft_service.drafters.draft_rows import DraftRows
from draft_service.drafters.network_session import NetworkSession
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.pass_times import PassTimes
from draft_service.row_extents import RowExtents

OnDrop = Callable[[bytes, DropReason, str], None]


class Level(NamedTuple):
    """One level of some trees.

    Args:
        grown: Sessions whose trees have it now.
        micros: Time of the pass.
    """

    grown: list[NetworkSession]
    micros: float


class NetworkPasses:
    """Runs a draft network.

    Args:
        network: The head or draft model.
        extents: Slots of its pool.
        on_drop: Told of each session that loses its network: id, reason, and words.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        network: DraftNetwork,
        extents: RowExtents,
        on_drop: OnDrop,
        clock: Callable[[], float],
    ) -> None:
        self._network, self._extents = network, extents
        self._on_drop, self._clock = on_drop, clock
        self._times = PassTimes()

    def level_micros(self, rows: int) -> float:
        """How long one level of so many rows will take."""
        return self._times.micros(rows)

    def absorb(
        self, counts: Mapping[NetworkSession, int], rankings: Mapping[NetworkSession, Ranking]
    ) -> float:
        """Puts true rows into draft KV.

        Args:
            counts: Rows of each session.
            rankings: How to rank what follows on the last of them, where that is wanted.

        Returns:
            Microseconds.
        """
        shares: dict[NetworkSession, TrueRows] = {}
        for session, count in counts.items():
            # For all known tokens, so that a prompt which is run in pieces need not move.
            rows = self._with_room(session, len(session.token_ids) - session.true_rows)
            if rows is not None:
                shares[session] = rows.take(count, session.token_ids, rankings.get(session))
        if not shares:
            return 0.0
        started = self._clock()
        try:
            answers = self._network.absorb(list(shares.values()))
        except Exception as error:  # of whatever kind: a network may fail, a stream may not
            self._failed(shares, error)
            return 0.0
        for session, guesses in zip(shares, answers, strict=True):
            if guesses is not None and not _are_finite([guesses]):
                self.drop(session, DropReason.NON_FINITE, "behind true rows")
            elif session.rows is not None:
                session.rows.root_guesses = guesses
        return (self._clock() - started) * 1e6

    def expand(
        self, planned: Mapping[NetworkSession, Sequence[int]], widths: Sequence[int]
    ) -> Level:
        """Adds one level to some trees.

        Args:
            planned: Nodes whose children are wanted, at least one of each tree.
            widths: Children wanted of each node, one for each tree.
        """
        shares: dict[NetworkSession, NodeRows] = {}
        for (session, nodes), width in zip(planned.items(), widths, strict=True):
            growth = session.growth
            rows = self._with_room(session, growth.row_count + len(nodes))
            if rows is not None:
                ranking = session.ranking(width)
                shares[session] = growth.rows_of(nodes, rows.true_rows, rows.start, ranking)
        if not shares:
            return Level([], 0.0)
        started = self._clock()
        try:
            answers = self._network.expand(list(shares.values()))
        except Exception as error:  # as above
            self._failed(shares, error)
            return Level([], 0.0)
        micros = (self._clock() - started) * 1e6
        self._times.note(sum(len(share.token_ids) for share in shares.values()), micros)
        grown = []
        for session, guesses in zip(shares, answers, strict=True):
            if _are_finite(guesses):
                session.growth.add_level(planned[session], guesses)
                grown.append(session)
            else:
                self.drop(session, DropReason.NON_FINITE, "in its tree")
        return Level(grown, micros)

    def drop(self, session: NetworkSession, reason: DropReason, text: str) -> None:
        """Takes a session's network away, for good; once is enough."""
        if session.rows is not None:
            session.rows.release()
            session.rows = None
            self._on_drop(session.session_id, reason, text)

    def _with_room(self, session: NetworkSession, more_rows: int) -> DraftRows | None:
        """Its rows with room behind the true ones; else it loses its network."""
        if session.rows is not None:
            try:
                has_room = session.rows.reserve(more_rows)
            except Exception as error:  # as above: rows may have to be moved
                self._failed([session], error)
                return None
            if not has_room:
                text = f"{self._extents.in_use} of {self._extents.slot_count} rows are in use"
                self.drop(session, DropReason.NO_ROOM, text)
        return session.rows

    def _failed(self, sessions: Iterable[NetworkSession], error: Exception) -> None:
        for session in sessions:
            self.drop(session, DropReason.FAILED, f"{type(error).__name__}: {error}")


def _are_finite(guesses: Sequence[Guesses]) -> bool:
    """True where all probabilities are numbers."""
    return math.isfinite(sum(sum(one.probs) for one in guesses))
