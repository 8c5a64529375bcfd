"""How long a step waits for trees that are on their way: as long as that saves time."""

import pytest

from outrider.protocol.messages import CostTable
from outrider.protocol.session import RoundLedger
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import stream
from verify_service.gathering import FIRST_GUESS_S, Gathering
from verify_service.kv_blocks import BlockTable
from verify_service.prefix_names import PrefixNames
from verify_service.sessions import VerifySession

FLAT = CostTable((1, 64), (20_000, 20_001))  # a pass takes 20 ms, whatever its rows
DEAR = CostTable((1, 64), (20_000, 64 * 20_000))  # each row takes 20 ms


def session(peer: bytes = b"near") -> VerifySession:
    opened = stream("s", [1, 2, 3]).session.open()
    return VerifySession(
        peer, opened, BlockTable(4), RoundLedger(0), 0, [1, 2, 3], PrefixNames(4, b"")
    )


def came_back(gathering: Gathering, one: VerifySession, now: float, after: float) -> None:
    """Answered at `now`, and its next tree is there so long after."""
    gathering.answered([(one, 1)], now)
    one.tree, one.waiting_since = TokenTree.root_only(3), now + after
    gathering.wait_until(1, now + after)
    one.tree = None


def test_nobody_is_waited_for_who_is_not_on_the_way():
    assert Gathering(FLAT).wait_until(3, 7.0) == 7.0


def test_a_worker_that_has_never_answered_is_given_a_moment():
    gathering = Gathering(FLAT)
    gathering.answered([(session(), 1)], 1.0)
    until = gathering.wait_until(1, 1.0)
    assert FIRST_GUESS_S < until - 1.0 < 2 * FIRST_GUESS_S
    assert gathering.wait_until(1, until) == until, "later it is not on its way any more"


@pytest.mark.parametrize(("turnaround", "pays"), [(0.001, True), (0.012, True), (0.03, False)])
def test_what_one_pass_saves_over_two_bounds_the_wait(turnaround, pays):
    gathering, one = Gathering(FLAT), session()
    came_back(gathering, one, 1.0, turnaround)
    gathering.answered([(one, 1)], 2.0)
    wait = gathering.wait_until(1, 2.0) - 2.0
    assert (turnaround < wait < 0.02) if pays else wait == 0.0


def test_where_rows_cost_what_they_cost_no_wait_pays():
    gathering = Gathering(DEAR)
    gathering.answered([(session(), 4)], 1.0)
    assert gathering.wait_until(4, 1.0) == 1.0


def test_a_distant_worker_is_told_from_a_near_one():
    gathering, near, far = Gathering(FLAT), session(b"near"), session(b"far")
    came_back(gathering, near, 1.0, 0.002)
    came_back(gathering, far, 1.0, 0.5)
    gathering.answered([(near, 1), (far, 1)], 2.0)
    assert 0.002 < gathering.wait_until(1, 2.0) - 2.0 < 0.005, "for the near one alone"


def test_who_has_come_is_not_waited_for():
    gathering, one = Gathering(FLAT), session()
    gathering.answered([(one, 1)], 1.0)
    one.tree, one.waiting_since = TokenTree.root_only(3), 1.001
    assert gathering.wait_until(1, 1.001) == 1.001


def test_the_mean_follows_a_worker_that_slows_down():
    gathering, one = Gathering(FLAT), session()
    came_back(gathering, one, 1.0, 0.001)
    for turn in range(2, 30):
        came_back(gathering, one, float(turn), 0.01)
    gathering.answered([(one, 1)], 40.0)
    assert gathering.wait_until(1, 40.0) - 40.0 > 0.01
