"""Features of rows that may be asked for later: one tensor a layer, over the slots of the KV pool.

A session that begins with the rows of another one (`kv_blocks.py`) has not run them itself, but its
draft head wants their features all the same.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class FeaturePool:
    """Takes its room with the first features, for all slots at once: it would need it anyway.

    Args:
        slot_count: Slots of the KV pool.
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
        for layer, columns in zip(layers, features.chunk(len(layers), dim=1), strict=True):
            if layer not in self._rows:
                self._rows[layer] = columns.new_zeros(self._slot_count, columns.shape[1])
            rows = self._rows[layer]
            rows[slots.to(rows.device)] = columns

    def read(self, layers: Sequence[int], slots: Sequence[int]) -> Tensor:
        """Features of some slots, `[num_slots, len(layers) * hidden_size]`, on their device."""
        device = self._rows[layers[0]].device
        places = torch.tensor(slots, dtype=torch.int64, device=device)
        return torch.cat([self._rows[layer][places] for layer in layers], dim=1)

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Follows rows of the KV pool, as if all were read before any is written."""
        for rows in self._rows.values():
            places = torch.tensor((sources, destinations), dtype=torch.int64, device=rows.device)
            rows[places[1]] = rows[places[0]]
