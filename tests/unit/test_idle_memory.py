"""Memory is given back once in each pause, and not between requests."""

from outrider.idle_memory import IDLE_S, IdleMemory, trim_heap


def test_it_is_given_back_once_in_each_pause():
    given: list[float] = []
    now = 0.0
    memory = IdleMemory(lambda: given.append(now))
    busy = [*range(5, 10), 11, *range(30, 32)]
    for now in map(float, range(60)):
        memory.note(now not in busy, now)
    assert given == [12 + IDLE_S, 32 + IDLE_S], "not before the first request, nor between two"


def test_the_heap_can_be_trimmed_at_any_time():
    trim_heap()
