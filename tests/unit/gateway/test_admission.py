"""Places and queue: bounded, first come first served, nothing lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.admission import Admission
from outrider.protocol.errors import NoCapacity


def test_the_queue_is_first_come_first_served() -> None:
    admission = Admission(max_running=1, max_queued=2)
    assert [admission.arrive(ticket) for ticket in (1, 2, 3)] == [True, False, False]
    with pytest.raises(NoCapacity):
        admission.arrive(4)
    assert admission.leave(1) == 2
    assert admission.leave(2) == 3
    assert admission.leave(3) is None
    assert (admission.running_count, admission.queued_count) == (0, 0)


def test_who_gives_up_waiting_is_passed_over() -> None:
    admission = Admission(max_running=1, max_queued=2)
    for ticket in (1, 2, 3):
        admission.arrive(ticket)
    assert admission.leave(2) is None
    assert admission.leave(1) == 3


def test_without_a_queue_a_full_house_sends_away() -> None:
    admission = Admission(max_running=1, max_queued=0)
    admission.arrive(1)
    with pytest.raises(NoCapacity):
        admission.arrive(2)


class AnyOrder(RuleBasedStateMachine):
    """Arrivals and departures in any order, against two lists."""

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission(max_running=2, max_queued=3)
        self.running: list[int] = []
        self.queued: list[int] = []
        self.next_ticket = 0

    @rule()
    def arrive(self) -> None:
        ticket = self.next_ticket
        self.next_ticket += 1
        if len(self.running) < 2:
            assert self.admission.arrive(ticket)
            self.running.append(ticket)
        elif len(self.queued) < 3:
            assert not self.admission.arrive(ticket)
            self.queued.append(ticket)
        else:
            with pytest.raises(NoCapacity):
                self.admission.arrive(ticket)

    @precondition(lambda self: bool(self.running or self.queued))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.running + self.queued))
        successor = self.admission.leave(ticket)
        if ticket in self.queued:
            self.queued.remove(ticket)
            assert successor is None
            return
        self.running.remove(ticket)
        expected = self.queued.pop(0) if self.queued else None
        assert successor == expected
        if expected is not None:
            self.running.append(expected)

    @invariant()
    def counts(self) -> None:
        assert self.admission.running_count == len(self.running)
        assert self.admission.queued_count == len(self.queued)


AnyOrder.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestAnyOrder = AnyOrder.TestCase
