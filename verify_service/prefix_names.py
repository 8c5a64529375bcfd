"""Names of KV blocks: a hash over the tokens of a block and of all blocks before it.

Two sessions whose texts begin alike have the same names, as far as they are alike in whole blocks.
The salt keeps apart those that must not learn of one another.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

NAME_BYTES = 16


class PrefixNames:
    """The names of one session's blocks, made as they are needed.

    Args:
        block_size: Tokens of a block.
        salt: Sessions share blocks with those of the same salt only.
    """

    def __init__(self, block_size: int, salt: bytes = b"") -> None:
        self._block_size = block_size
        self._last = hashlib.blake2b(salt, digest_size=NAME_BYTES).digest()
        self._names: list[bytes] = []

    def of(self, token_ids: Sequence[int], row_count: int) -> list[bytes]:
        """Names of the whole blocks among a session's first rows.

        Args:
            token_ids: Of the session; from call to call they only grow.
            row_count: Rows that may be named.
        """
        size = self._block_size
        while (len(self._names) + 1) * size <= row_count:
            start = len(self._names) * size
            block = np.asarray(token_ids[start : start + size], dtype="<u4").tobytes()
            self._last = hashlib.blake2b(self._last + block, digest_size=NAME_BYTES).digest()
            self._names.append(self._last)
        return self._names[: row_count // size]
