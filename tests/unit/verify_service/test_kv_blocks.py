import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from verify_service.kv_blocks import BlockTable, KvBlocks, PoolExhausted


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
    with pytest.raises(AssertionError, match="0 tables, 1 owners"):
        blocks.audit([other])
    other.append(one.blocks[0])
    with pytest.raises(AssertionError, match="2 tables, 1 owners"):
        blocks.audit([one, other])


def named(blocks: KvBlocks, table: BlockTable, text: str) -> None:
    """Gives a table's blocks names: the letters up to each block."""
    for place, block in enumerate(table.blocks[: len(text)]):
        blocks.name(block, text[: place + 1].encode())


def names(text: str) -> list[bytes]:
    return [text[: place + 1].encode() for place in range(len(text))]


def test_a_text_that_begins_alike_shares_the_blocks_of_its_beginning():
    blocks = KvBlocks(8, 2)
    one, other = blocks.new_table(), blocks.new_table()
    blocks.reserve(one, 8)
    named(blocks, one, "abcd")
    assert blocks.share(other, names("abxy")) == 4
    assert other.blocks == one.blocks[:2]
    blocks.reserve(other, 7)
    assert blocks.in_use == 6
    blocks.audit([one, other])
    blocks.release(one)
    assert (blocks.in_use, blocks.idle) == (4, 2)
    blocks.release(other)
    assert (blocks.in_use, blocks.idle) == (0, 4)


def test_idle_rows_serve_again_until_their_room_is_needed():
    blocks = KvBlocks(4, 1)
    first, second, third = (blocks.new_table() for _ in range(3))
    blocks.reserve(first, 3)
    named(blocks, first, "abc")
    blocks.release(first)
    assert blocks.share(second, names("ab")) == 2
    assert (blocks.in_use, blocks.idle) == (2, 1)
    blocks.release(second)
    blocks.reserve(third, 2)  # one is free, and the end of the chain is next to it or goes first
    blocks.audit([first, second, third])
    blocks.release(third)
    assert blocks.share(blocks.new_table(), names("abc")) == 2


def test_a_chain_goes_from_its_end_and_the_longest_idle_first():
    blocks = KvBlocks(6, 1)
    old, young = blocks.new_table(), blocks.new_table()
    blocks.reserve(old, 3)
    blocks.reserve(young, 3)
    named(blocks, old, "abc")
    named(blocks, young, "xyz")
    blocks.release(old)
    blocks.release(young)
    taker = blocks.new_table()
    blocks.reserve(taker, 1)
    assert taker.blocks
    found = [blocks.share(blocks.new_table(), names(text)) for text in ("abc", "xyz")]
    assert found == [2, 3]


def test_a_session_grows_into_an_idle_neighbour():
    blocks = KvBlocks(5, 1)
    first, second = blocks.new_table(), blocks.new_table()
    blocks.reserve(first, 4)
    named(blocks, first, "abcd")
    blocks.release(first)
    blocks.share(second, names("ab"))
    third = blocks.new_table()
    blocks.reserve(third, 1)  # the one that was free; nobody's rows are lost
    assert blocks.idle == 2
    blocks.reserve(second, 4)
    assert isinstance(second.slots(0, 4), range)
    blocks.audit([second, third])


def test_rows_that_cannot_be_trusted_are_shared_no_more():
    blocks = KvBlocks(4, 1)
    one, other = blocks.new_table(), blocks.new_table()
    blocks.reserve(one, 2)
    named(blocks, one, "ab")
    blocks.share(other, names("a"))
    blocks.release(one, forget_names=True)
    assert blocks.idle == 0
    assert blocks.share(blocks.new_table(), names("ab")) == 0
    blocks.release(other)
    assert (blocks.in_use, blocks.idle) == (0, 0)


def test_of_two_blocks_with_the_same_rows_one_is_found():
    blocks = KvBlocks(4, 1)
    one, other = blocks.new_table(), blocks.new_table()
    for table in (one, other):
        blocks.reserve(table, 2)
        named(blocks, table, "ab")
    blocks.release(one)
    blocks.release(other)
    assert blocks.idle == 2
    blocks.audit([])


def test_a_pool_that_keeps_nothing_shares_nothing():
    blocks = KvBlocks(4, 1, keeps_rows=False)
    table = blocks.new_table()
    blocks.reserve(table, 2)
    named(blocks, table, "ab")
    assert blocks.share(blocks.new_table(), names("ab")) == 0
    blocks.release(table)
    assert (blocks.in_use, blocks.idle) == (0, 0)


class PoolMachine(RuleBasedStateMachine):
    """Any order of sharing, reserving, naming and releasing keeps each block in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = KvBlocks(12, 3)
        self.tables = [self.blocks.new_table() for _ in range(4)]
        self.texts = [""] * 4
        self.contents: dict[int, str] = {}  # what was last written to each block

    @rule(which=st.integers(0, 3), text=st.text("ab", max_size=5))
    def begin(self, which: int, text: str) -> None:
        table = self.tables[which]
        if not table.blocks:
            self.texts[which] = text
            rows = self.blocks.share(table, names(text))
            assert rows == 3 * len(table.blocks)
            for place, block in enumerate(table.blocks):
                assert self.contents[block] == text[: place + 1]

    @rule(which=st.integers(0, 3), rows=st.integers(0, 40))
    def reserve(self, which: int, rows: int) -> None:
        table = self.tables[which]
        before = list(table.blocks)
        if self.blocks.can_reserve(table, rows):
            self.blocks.reserve(table, rows)
            assert table.capacity >= rows
            assert table.blocks[: len(before)] == before
            text = self.texts[which]
            for place, block in enumerate(table.blocks[len(before) :], start=len(before)):
                self.contents[block] = text[: place + 1]
                if place < len(text):
                    self.blocks.name(block, text[: place + 1].encode())
        else:
            with pytest.raises(PoolExhausted):
                self.blocks.reserve(table, rows)
            assert table.blocks == before

    @rule(which=st.integers(0, 3), forget=st.booleans())
    def release(self, which: int, forget: bool) -> None:
        self.blocks.release(self.tables[which], forget_names=forget)

    @invariant()
    def nothing_is_lost(self) -> None:
        self.blocks.audit(self.tables)
        assert self.blocks.in_use == len({b for table in self.tables for b in table.blocks})

    @invariant()
    def slots_are_where_the_blocks_say(self) -> None:
        for table in self.tables:
            rows = range(table.capacity)
            assert list(table.slots(0, table.capacity)) == [table.slot(row) for row in rows]


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
