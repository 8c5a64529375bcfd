"""The KV pool's tensors: `[slots, kv_heads, head_dim]` for keys and for values of each layer.

Each layer's rows live on the device where that layer's weights live. Which slot belongs to whom is
decided elsewhere; this file only reads, writes and moves rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Slots = slice | Tensor  # contiguous slots, or int64 `[num_rows]`


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What one attention layer produces per row.

    Args:
        kv_heads: Key-value heads.
        key_dim: Size of a key.
        value_dim: Size of a value.
        dtype: Of both.
        device: Of both.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_row(self) -> int:
        """Bytes that one row takes in this layer."""
        return self.kv_heads * (self.key_dim + self.value_dim) * self.dtype.itemsize


class KvPool:
    """All layers' rows, allocated once.

    Args:
        layers: Shape of each layer, in order.
        slot_count: Rows of the pool.
    """

    def __init__(self, layers: list[LayerShape], slot_count: int) -> None:
        self.slot_count = slot_count
        self._keys = [_rows(slot_count, layer, layer.key_dim) for layer in layers]
        self._values = [_rows(slot_count, layer, layer.value_dim) for layer in layers]

    def write(self, layer: int, slots: Slots, keys: Tensor, values: Tensor) -> None:
        """Stores new rows.

        Args:
            layer: Index of the layer.
            slots: Where, one per row.
            keys: `[num_rows, kv_heads, key_dim]`.
            values: `[num_rows, kv_heads, value_dim]`.
        """
        self._keys[layer][slots] = keys
        self._values[layer][slots] = values

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Keys and values of some rows: a view where `slots` is a slice, else a copy."""
        return self._keys[layer][slots], self._values[layer][slots]

    def move(self, sources: list[int], destinations: list[int]) -> None:
        """Copies rows between slots in all layers, as if all were read before any is written."""
        for rows in (*self._keys, *self._values):
            taken = rows[torch.tensor(sources, device=rows.device)]
            rows[torch.tensor(destinations, device=rows.device)] = taken


def _rows(slot_count: int, layer: LayerShape, size: int) -> Tensor:
    shape = (slot_count, layer.kv_heads, size)
    return torch.zeros(shape, dtype=layer.dtype, device=layer.device)
