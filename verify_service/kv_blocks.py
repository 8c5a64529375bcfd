"""Block tables of the paged KV pool: who owns which rows. Lists of ints only, no tensors.

    rows [0, cached)                     committed; every node of the session may see them
    rows [cached, cached + new)          this step's; compacted or overwritten afterwards
    rows [cached + new, capacity)        reserved by the session, not written

Row r of a session lies in slot `blocks[r // block_size] * block_size + r % block_size` of the pool.
Blocks are handed out so that a session's rows stay contiguous while there is room: attention then
reads a view of the pool instead of gathering.

A block whose rows are all committed may be given a name that says which tokens they stand for, all
before them included (`prefix_names.py`). Sessions that begin with the same tokens share it. When
its last owner goes it is not freed but idle: its rows stay until the room is needed. Then the block
that has been idle longest goes first, a chain from its end; only a neighbour that keeps a session's
rows together goes before that.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
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
    """The pool's blocks and the verbs that move them: share, reserve, name, release.

    Args:
        block_count: Blocks of the pool, at least 1.
        block_size: Rows of a block, at least 1.
        keeps_rows: False: no block gets a name, so that nothing is shared and nothing stays.
    """

    def __init__(self, block_count: int, block_size: int, keeps_rows: bool = True) -> None:
        if block_count < 1 or block_size < 1:
            raise ValueError(f"{block_count} blocks of {block_size} rows; both must be at least 1")
        self.block_count = block_count
        self.block_size = block_size
        self._keeps_rows = keeps_rows
        self._free = set(range(block_count))
        self._idle: dict[int, None] = {}  # longest idle first
        self._owners = [0] * block_count
        self._names: dict[int, bytes] = {}
        self._named: dict[bytes, int] = {}

    @property
    def in_use(self) -> int:
        """Blocks that sessions own."""
        return self.block_count - len(self._free) - len(self._idle)

    @property
    def idle(self) -> int:
        """Blocks that nobody owns and whose rows may serve again."""
        return len(self._idle)

    def new_table(self) -> BlockTable:
        """An empty table."""
        return BlockTable(self.block_size)

    def blocks_for(self, rows: int) -> int:
        """Blocks that `rows` rows need."""
        return -(-rows // self.block_size)

    def share(self, table: BlockTable, names: Sequence[bytes]) -> int:
        """Gives an empty table the blocks of a chain of names, as far as they are there.

        Returns:
            Rows that the table has now, all of them written.
        """
        assert not table.blocks, "only an empty table can begin with rows of others"
        for name in names:
            block = self._named.get(name)
            if block is None:
                break
            self._idle.pop(block, None)
            self._owners[block] += 1
            table.append(block)
        return table.capacity

    def can_reserve(self, table: BlockTable, rows: int) -> bool:
        """True where `reserve` would succeed."""
        available = len(self._free) + len(self._idle)
        return self.blocks_for(rows) - len(table.blocks) <= available

    def reserve(self, table: BlockTable, rows: int) -> None:
        """Grows a table until `rows` rows fit.

        Raises:
            PoolExhausted: Too few blocks are free or idle; the table is unchanged.
        """
        if not self.can_reserve(table, rows):
            available = len(self._free) + len(self._idle)
            raise PoolExhausted(f"{rows} rows, {available} blocks of {self.block_size} are left")
        while table.capacity < rows:
            block = self._next_block(table)
            self._take(block)
            table.append(block)

    def name(self, block: int, name: bytes) -> None:
        """Says which tokens a block's rows stand for; of two blocks with one name the first keeps
        it."""
        if self._keeps_rows and block not in self._names and name not in self._named:
            self._names[block] = name
            self._named[name] = block

    def release(self, table: BlockTable, *, forget_names: bool = False) -> None:
        """Takes all blocks of a table back.

        Args:
            table: Empty afterwards.
            forget_names: True: its rows cannot be trusted; nobody shares them from now on.
        """
        for block in reversed(table.blocks):
            if forget_names:
                self._forget_name(block)
            self._owners[block] -= 1
            if self._owners[block]:
                continue
            if block in self._names:
                self._idle[block] = None
            else:
                self._free.add(block)
        table.blocks.clear()
        table.first_gap = None

    def audit(self, tables: Iterable[BlockTable]) -> None:
        """Recounts: each block is free, or idle, or has as many owners as there are tables with it.

        Raises:
            AssertionError: Names the difference.
        """
        owned = Counter(block for table in tables for block in table.blocks)
        for block, owners in enumerate(self._owners):
            if owned[block] != owners:
                raise AssertionError(f"block {block}: {owned[block]} tables, {owners} owners")
        if not (self._free.isdisjoint(owned) and self._idle.keys().isdisjoint(owned)):
            raise AssertionError("a KV block has an owner and is free")
        if len(owned) + len(self._free) + len(self._idle) != self.block_count:
            raise AssertionError("a KV block leaked, or is free and idle")
        if self._named != {name: block for block, name in self._names.items()}:
            raise AssertionError("names and blocks disagree")
        if not self._names.keys().isdisjoint(self._free):
            raise AssertionError("a free KV block has a name")

    def _take(self, block: int) -> None:
        """Makes a free or idle block the property of one session."""
        if block in self._idle:
            del self._idle[block]
            self._forget_name(block)
        else:
            self._free.remove(block)
        self._owners[block] = 1

    def _forget_name(self, block: int) -> None:
        name = self._names.pop(block, None)
        if name is not None:
            del self._named[name]

    def _next_block(self, table: BlockTable) -> int:
        if table.blocks:
            neighbour = table.blocks[-1] + 1
            if neighbour in self._free or (neighbour in self._idle and not self._free):
                return neighbour
        if not self._free:
            return next(iter(self._idle))
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
