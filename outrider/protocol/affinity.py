"""Which of several workers gets a stream: one that may have its beginning in the cache, if it has
no more to do than the others.

Every gateway and every draft worker comes to the same answer without asking anybody: rendezvous
hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). Policy:
knows no worker, only names and loads.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence

PREFIX_TOKENS = 64  # what a system prompt is told by; a request of the same kind shares them
SPARE_STREAMS = 2  # how many streams more than the least loaded the preferred one may have,
SPARE_SHARE = 0.25  # and this share of its load beside


def affinity_key(token_ids: Sequence[int], salt: bytes = b"") -> bytes:
    """What two prompts have in common where one may begin with the other's cached rows.

    Args:
        token_ids: The prompt; its first `PREFIX_TOKENS` count.
        salt: Rows are shared with requests of the same salt only.
    """
    first = token_ids[:PREFIX_TOKENS]
    packed = struct.pack(f"<{len(first)}I", *first)
    return hashlib.blake2b(packed, key=salt, digest_size=16).digest()


def choose_worker(loads: Mapping[str, int], key: bytes) -> str | None:
    """Chooses a worker.

    Args:
        loads: Streams of each worker that may be chosen, by name.
        key: See `affinity_key`.

    Returns:
        The worker that the key prefers among all; the least loaded one where that has clearly more
        to do; None where there is none.
    """
    if not loads:
        return None
    preferred = max(loads, key=lambda name: _score(name, key))
    least = min(loads.values())
    if loads[preferred] <= least + SPARE_STREAMS + SPARE_SHARE * least:
        return preferred
    return max((name for name in loads if loads[name] == least), key=lambda name: _score(name, key))


def _score(name: str, key: bytes) -> bytes:
    return hashlib.blake2b(name.encode(), key=key, digest_size=16).digest()
