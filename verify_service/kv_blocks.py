"""Block tables of the paged KV pool: who owns which rows. Lists of ints only, no tensors.

    rows [0, cached)                     committed; every node of the session may see them
    rows [cached, cached + new)          this step's; compacted or overwritten afterwards
    rows [cached + new, capacity)        reserved by the session, not written

Row r of a session lies in slot `blocks[r // block_size] * block_size + r % block_size` of the pool.
Blocks are handed out so that a session's rows stay contiguous while there is room: attention then
reads a view of the pool instead of gathering.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field


class PoolExhausted(Exception):
    """Fewer blocks are free than a reservation needs; ask `can_reserve` first."""


@dataclass(slots=True)
class BlockTable:
    """The blocks of one session, in the order of its rows."""

    block_size: int
    blocks: list[int] = field(default_factory=list)
    first_gap: int | None = None  # index of the first block that does not follow its neighbour

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return len(self.blocks) * self.block_size

    def slot(self, row: int) -> int:
        """Pool slot of one row below `capacity`."""
        return self.blocks[row // self.block_size] * self.block_size + row % self.block_size

    def slots(self, start: int, stop: int) -> range | list[int]:
        """Pool slots of rows [start, stop): a range where they are contiguous."""
        if start >= stop:
            return range(0)
        if self.first_gap is None or stop <= self.first_gap * self.block_size:
            first = self.slot(start)
            return range(first, first + stop - start)
        return [self.slot(row) for row in range(start, stop)]

    def append(self, block: int) -> None:
        """Adds a block at the end."""
        if self.first_gap is None and self.blocks and block != self.blocks[-1] + 1:
            self.first_gap = len(self.blocks)
        self.blocks.append(block)


class KvBlocks:
    """The pool's free blocks and the verbs that move them: reserve, release.

    Args:
        block_count: Blocks of the pool, at least 1.
        block_size: Rows of a block, at least 1.
    """

    def __init__(self, block_count: int, block_size: int) -> None:
        if block_count < 1 or block_size < 1:
            raise ValueError(f"{block_count} blocks of {block_size} rows; both must be at least 1")
        self.block_count = block_count
        self.block_size = block_size
        self._free = set(range(block_count))

    @property
    def in_use(self) -> int:
        """Blocks that sessions own."""
        return self.block_count - len(self._free)

    def new_table(self) -> BlockTable:
        """An empty table."""
        return BlockTable(self.block_size)

    def blocks_for(self, rows: int) -> int:
        """Blocks that `rows` rows need."""
        return -(-rows // self.block_size)

    def can_reserve(self, table: BlockTable, rows: int) -> bool:
        """True where `reserve` would succeed."""
        return self.blocks_for(rows) - len(table.blocks) <= len(self._free)

    def reserve(self, table: BlockTable, rows: int) -> None:
        """Grows a table until `rows` rows fit.

        Raises:
            PoolExhausted: Too few blocks are free; the table is unchanged.
        """
        if not self.can_reserve(table, rows):
            raise PoolExhausted(f"{rows} rows, {len(self._free)} blocks of {self.block_size} free")
        while table.capacity < rows:
            block = self._next_block(table)
            self._free.remove(block)
            table.append(block)

    def release(self, table: BlockTable) -> None:
        """Takes all blocks of a table back."""
        self._free.update(table.blocks)
        table.blocks.clear()
        table.first_gap = None

    def audit(self, tables: Iterable[BlockTable]) -> None:
        """Recounts: each block is free or in exactly one table.

        Raises:
            AssertionError: Names the difference.
        """
        owned = [block for table in tables for block in table.blocks]
        if len(owned) != len(set(owned)) or not self._free.isdisjoint(owned):
            raise AssertionError("a KV block has two owners")
        if len(owned) + len(self._free) != self.block_count:
            raise AssertionError(f"{self.block_count - len(owned) - len(self._free)} blocks leaked")

    def _next_block(self, table: BlockTable) -> int:
        if table.blocks and table.blocks[-1] + 1 in self._free:
            return table.blocks[-1] + 1
        start, length = self._largest_run()
        # Behind another session's last block, leave half of the room for it to grow into.
        return start if start == 0 else start + length // 2

    def _largest_run(self) -> tuple[int, int]:
        best_start, best_length, start, length = 0, 0, 0, 0
        for block in sorted(self._free):
            if block != start + length:
                start, length = block, 0
            length += 1
            if length > best_length:
                best_start, best_length = start, length
        return best_start, best_length
