"""Turns among tenants, who gives way, and how long one waits. No request is ever lost."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.fair_queue import FairQueue


def filled(*tenants: str, max_count: int = 100, max_bytes: int = 1000) -> FairQueue:
    """A queue with one request of ten bytes each; tickets count from 0."""
    queue = FairQueue(max_count, max_bytes)
    for ticket, tenant in enumerate(tenants):
        queue.push(ticket, tenant, 10)
    return queue


def order(queue: FairQueue, running: Counter[str] | None = None) -> str:
    """Whose turns come, where each one that runs goes on running."""
    running = running or Counter()
    turns = ""
    while (turn := queue.pop(running)) is not None:
        turns += turn.tenant
        running[turn.tenant] += 1
    return turns


def test_one_tenant_is_served_as_it_came() -> None:
    queue = filled(*"aaaa")
    assert [queue.pop({}) for _ in range(4)] == [(0, "a"), (1, "a"), (2, "a"), (3, "a")]
    assert queue.pop({}) is None


def test_a_hundred_of_one_do_not_delay_the_first_of_another() -> None:
    queue = filled(*"a" * 100, "b", max_count=200)
    assert queue.pop(Counter(a=64)) == (100, "b")


def test_whoever_has_fewest_running_goes_first_until_all_are_level() -> None:
    assert order(filled(*"aaabbbccc"), Counter(a=2, b=1)) == "cbcabcaba"


def test_among_equals_turns_go_round() -> None:
    queue = filled(*"aaabbb")
    nobody_runs: dict[str, int] = {}
    assert "".join(queue.pop(nobody_runs).tenant for _ in range(6)) == "ababab"  # type: ignore[union-attr]


def test_coming_one_by_one_is_no_way_to_the_front() -> None:
    queue = filled(*"bbb")
    turns = "a"
    for ticket in range(10, 15):
        if turns[-1] == "a":
            queue.push(ticket, "a", 10)
        turn = queue.pop({})
        assert turn is not None
        turns += turn.tenant
    assert turns == "ababab"


def test_the_heaviest_gives_way_with_its_newest() -> None:
    queue = filled(*"aaab", max_count=4)
    assert queue.displaced_by("b", 10) == [2]
    assert queue.displaced_by("c", 10) == [2]
    assert queue.displaced_by("a", 10) is None
    assert len(queue) == 4  # nothing has changed


def test_equals_do_not_displace_one_another() -> None:
    assert filled(*"aabb", max_count=4).displaced_by("b", 10) is None
    assert filled(*"aab", max_count=3).displaced_by("b", 10) is None
    assert filled(*"abcd", max_count=4).displaced_by("e", 10) is None


def test_bytes_bound_the_queue_too() -> None:
    queue = filled(*"aaaab", max_bytes=55)
    assert queue.size_bytes == 50
    assert queue.displaced_by("b", 5) == []
    assert queue.displaced_by("b", 6) == [3]
    assert queue.displaced_by("c", 20) == [3, 2]
    assert queue.displaced_by("c", 30) is None  # it would soon have the most itself
    assert queue.displaced_by("c", 56) is None
    assert FairQueue(0, 100).displaced_by("a", 1) is None


def test_how_many_turns_come_before() -> None:
    queue = filled(*"aaaab")
    assert queue.ahead_of("a", {}) == 4 + 1
    assert queue.ahead_of("b", {}) == 1 + 1
    assert queue.ahead_of("c", {}) == 0
    assert queue.ahead_of("c", Counter(a=5, c=3)) == 1
    assert queue.ahead_of("c", Counter(c=100)) == 5


class AnyOrder(RuleBasedStateMachine):
    """Pushes, turns and departures in any order, against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue(max_count=6, max_bytes=100)
        self.waiting: dict[int, tuple[str, int]] = {}
        self.next_ticket = 0

    def counts(self) -> Counter[str]:
        return Counter(tenant for tenant, _ in self.waiting.values())

    @rule(tenant=st.sampled_from("abc"), size=st.integers(0, 60))
    def push(self, tenant: str, size: int) -> None:
        displaced = self.queue.displaced_by(tenant, size)
        if displaced is None:
            return
        for ticket in displaced:
            loser, _ = self.waiting.pop(ticket)
            assert loser != tenant
            self.queue.remove(ticket)
        self.queue.push(self.next_ticket, tenant, size)
        self.waiting[self.next_ticket] = (tenant, size)
        self.next_ticket += 1

    @rule(running=st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)))
    def pop(self, running: dict[str, int]) -> None:
        turn = self.queue.pop(running)
        assert (turn is None) == (not self.waiting)
        if turn is None:
            return
        fewest = min(running.get(tenant, 0) for tenant in self.counts())
        assert running.get(turn.tenant, 0) == fewest
        own = [ticket for ticket, (tenant, _) in self.waiting.items() if tenant == turn.tenant]
        assert turn.ticket == min(own)
        del self.waiting[turn.ticket]

    @precondition(lambda self: bool(self.waiting))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.waiting)))
        self.queue.remove(ticket)
        del self.waiting[ticket]

    @invariant()
    def is_bounded_and_whole(self) -> None:
        assert len(self.queue) == len(self.waiting) <= 6
        assert self.queue.size_bytes == sum(size for _, size in self.waiting.values()) <= 100
        assert all(ticket in self.queue for ticket in self.waiting)


AnyOrder.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestAnyOrder = AnyOrder.TestCase
