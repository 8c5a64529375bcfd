"""Places and queue: bounded, fair, refused early, nothing lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.admission import Admission, Arrival
from outrider.protocol.errors import NoCapacity, QueueFull, WaitTooLong

WAITS = Arrival(runs=False)
FAR_S = 1e9


def admission(max_running: int = 1, max_queued: int = 2, max_bytes: int = 1000) -> Admission:
    return Admission(max_running, max_queued, max_bytes)


def arrive(at: Admission, ticket: int, tenant: str = "", size: int = 1) -> Arrival:
    return at.arrive(ticket, tenant, size, FAR_S, now=0.0)


def test_one_tenants_requests_run_in_turn() -> None:
    at = admission()
    assert [arrive(at, ticket).runs for ticket in (1, 2, 3)] == [True, False, False]
    with pytest.raises(QueueFull, match="all 1 places are taken and 2 requests wait") as caught:
        arrive(at, 4)
    assert caught.value.retry_after_s == 1.0
    assert [at.leave(ticket, 0.0) for ticket in (1, 2, 3)] == [2, 3, None]
    assert (at.running_count, at.queued_count) == (0, 0)


def test_who_gives_up_waiting_is_passed_over() -> None:
    at = admission()
    for ticket in (1, 2, 3):
        arrive(at, ticket)
    assert at.leave(2, 0.0) is None
    assert at.leave(1, 0.0) == 3


def test_without_a_queue_a_full_house_sends_away() -> None:
    at = admission(max_queued=0)
    arrive(at, 1)
    with pytest.raises(QueueFull):
        arrive(at, 2)


def test_a_tenant_that_fills_the_queue_gives_way_to_another() -> None:
    at = admission()
    for ticket in (1, 2, 3):
        arrive(at, ticket, "a")
    assert arrive(at, 4, "b") == Arrival(runs=False, displaced=[3])
    assert at.leave(3, 0.0) is None  # it has left before
    assert at.leave(1, 0.0) == 2
    assert at.leave(2, 0.0) == 4


def test_bytes_that_wait_are_bounded() -> None:
    at = admission(max_queued=100, max_bytes=10)
    arrive(at, 1, size=10**6)  # runs, so it does not wait
    arrive(at, 2, size=6)
    with pytest.raises(QueueFull):
        arrive(at, 3, size=5)
    arrive(at, 4, size=4)
    assert at.queued_bytes == 10


def test_who_would_wait_past_its_deadline_is_told_at_once() -> None:
    at = admission(max_queued=10)
    for ticket in range(8):
        at.arrive(ticket, "", 1, FAR_S, now=0.0)
        at.leave(ticket, now=2.0)
    arrive(at, 8)
    arrive(at, 9)
    at.check("", 1, time_left_s=4.0)
    with pytest.raises(WaitTooLong, match=r"in 4\.0 s, and the deadline is in 3\.0 s") as caught:
        at.check("", 1, time_left_s=3.0)
    assert caught.value.retry_after_s == 1.0
    at.check("other", 1, time_left_s=2.0)  # its turn comes first
    at.leave(9, 2.0)
    at.leave(8, 2.0)
    at.check("", 1, time_left_s=0.0)  # nobody waits for a free place


def test_a_check_changes_nothing() -> None:
    at = admission()
    for ticket in (1, 2, 3):
        arrive(at, ticket, "a")
    assert at.check("b", 1, FAR_S) == [3]
    assert at.queued_count == 2


class AnyOrder(RuleBasedStateMachine):
    """Arrivals and departures of three tenants in any order: each place is used, nobody is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.at = Admission(2, 3, 100)
        self.running: set[int] = set()
        self.queued: set[int] = set()
        self.next_ticket = 0

    @rule(tenant=st.sampled_from("abc"), size=st.integers(0, 60))
    def arrive(self, tenant: str, size: int) -> None:
        ticket = self.next_ticket
        self.next_ticket += 1
        try:
            runs, displaced = self.at.arrive(ticket, tenant, size, FAR_S, 0.0)
        except NoCapacity:
            assert len(self.running) == 2
            return
        assert runs == (len(self.running) < 2)
        (self.running if runs else self.queued).add(ticket)
        assert self.queued.issuperset(displaced)
        self.queued.difference_update(displaced)

    @precondition(lambda self: bool(self.running or self.queued))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.running | self.queued)))
        successor = self.at.leave(ticket, 0.0)
        if ticket in self.queued:
            self.queued.remove(ticket)
            assert successor is None
            return
        self.running.remove(ticket)
        assert (successor is not None) == bool(self.queued)
        if successor is not None:
            self.queued.remove(successor)
            self.running.add(successor)

    @invariant()
    def counts(self) -> None:
        assert self.at.running_count == len(self.running) <= 2
        assert self.at.queued_count == len(self.queued) <= 3
        assert self.at.queued_bytes <= 100


AnyOrder.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestAnyOrder = AnyOrder.TestCase
