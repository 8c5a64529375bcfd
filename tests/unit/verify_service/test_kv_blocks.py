import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from verify_service.kv_blocks import KvBlocks, PoolExhausted


def test_rows_stay_contiguous_while_there_is_room():
    blocks = KvBlocks(16, 4)
    first, second = blocks.new_table(), blocks.new_table()
    blocks.reserve(first, 8)
    blocks.reserve(second, 8)
    blocks.reserve(first, 24)
    blocks.reserve(second, 24)
    for table in (first, second):
        assert isinstance(table.slots(0, 24), range)
        assert list(table.slots(3, 9)) == [table.slot(row) for row in range(3, 9)]


def test_a_gap_gives_a_list_only_where_it_is_crossed():
    blocks = KvBlocks(4, 2)
    first, second = blocks.new_table(), blocks.new_table()
    blocks.reserve(first, 4)
    blocks.reserve(second, 2)
    taken = second.blocks[0]
    blocks.reserve(first, 6)
    assert taken not in first.blocks
    if first.first_gap is not None:
        assert isinstance(first.slots(0, 4), range)
        assert isinstance(first.slots(0, 6), list)
    assert list(first.slots(0, 6)) == [first.slot(row) for row in range(6)]


def test_too_large_a_reservation_changes_nothing():
    blocks = KvBlocks(2, 4)
    table = blocks.new_table()
    assert not blocks.can_reserve(table, 9)
    with pytest.raises(PoolExhausted):
        blocks.reserve(table, 9)
    assert blocks.in_use == 0
    blocks.reserve(table, 8)
    assert blocks.in_use == 2


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 0), (-1, 4)])
def test_an_empty_pool_is_refused(count, size):
    with pytest.raises(ValueError, match="at least 1"):
        KvBlocks(count, size)


def test_the_audit_finds_what_it_is_for():
    blocks = KvBlocks(4, 1)
    one, other = blocks.new_table(), blocks.new_table()
    blocks.reserve(one, 2)
    blocks.audit([one, other])
    with pytest.raises(AssertionError, match="leaked"):
        blocks.audit([other])
    other.append(one.blocks[0])
    with pytest.raises(AssertionError, match="two owners"):
        blocks.audit([one, other])


class PoolMachine(RuleBasedStateMachine):
    """Any order of reserving and releasing keeps each block in one place."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = KvBlocks(12, 3)
        self.tables = [self.blocks.new_table() for _ in range(4)]

    @rule(which=st.integers(0, 3), rows=st.integers(0, 40))
    def reserve(self, which: int, rows: int) -> None:
        table = self.tables[which]
        before = list(table.blocks)
        if self.blocks.can_reserve(table, rows):
            self.blocks.reserve(table, rows)
            assert table.capacity >= rows
            assert table.blocks[: len(before)] == before
        else:
            with pytest.raises(PoolExhausted):
                self.blocks.reserve(table, rows)
            assert table.blocks == before

    @rule(which=st.integers(0, 3))
    def release(self, which: int) -> None:
        self.blocks.release(self.tables[which])

    @invariant()
    def nothing_is_lost(self) -> None:
        self.blocks.audit(self.tables)
        assert self.blocks.in_use == sum(len(table.blocks) for table in self.tables)

    @invariant()
    def slots_are_where_the_blocks_say(self) -> None:
        for table in self.tables:
            rows = range(table.capacity)
            assert list(table.slots(0, table.capacity)) == [table.slot(row) for row in rows]


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
