"""Features of rows that may be asked for later: one tensor a layer, over the slots of the KV pool.

A session that begins with the rows of another one (`kv_blocks.py`) has not run them itself, but its
draft head wants their features all the same.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

GROWTH = 2


class FeaturePool:
    """Grows with the highest slot that was written.

    Args:
        slot_count: Slots of the KV pool, beyond which it never grows.
    """

    def __init__(self, slot_count: int) -> None:
        self._slot_count = slot_count
        self._rows: dict[int, Tensor] = {}

    def write(self, layers: Sequence[int], slots: Tensor, features: Tensor) -> None:
        """Keeps the features of some rows.

        Args:
            layers: In the order of the columns.
            slots: Int64 `[num_rows]`.
            features: `[num_rows, len(layers) * hidden_size]`.
        """
        needed = int(slots.max()) + 1
        for layer, columns in zip(layers, features.chunk(len(layers), dim=1), strict=True):
            rows = self._rows.get(layer)
            if rows is None or len(rows) < needed:
                rows = self._grown(rows, needed, columns)
                self._rows[layer] = rows
            rows[slots.to(rows.device)] = columns

    def read(self, layers: Sequence[int], slots: Sequence[int]) -> Tensor:
        """Features of some slots, `[num_slots, len(layers) * hidden_size]`, on their device."""
        device = self._rows[layers[0]].device
        places = torch.tensor(slots, dtype=torch.int64, device=device)
        return torch.cat([self._rows[layer][places] for layer in layers], dim=1)

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Follows rows of the KV pool, as if all were read before any is written."""
        for rows in self._rows.values():
            # Rows of sessions whose features nobody keeps may lie behind the end.
            pairs = [(a, b) for a, b in zip(sources, destinations, strict=True) if a < len(rows)]
            if pairs:
                places = torch.tensor(pairs, dtype=torch.int64, device=rows.device).T
                rows[places[1]] = rows[places[0]]

    def _grown(self, rows: Tensor | None, needed: int, like: Tensor) -> Tensor:
        doubled = 0 if rows is None else GROWTH * len(rows)
        size = max(needed, min(doubled, self._slot_count))
        grown = like.new_zeros(size, like.shape[1])
        if rows is not None:
            grown[: len(rows)] = rows
        return grown
