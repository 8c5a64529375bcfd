"""The KV pool's tensors: `[kv_heads, slots, head_dim]` for keys and for values of each layer.

Heads come first, because attention reads one head's rows at a time: 900 rows of context took 12 ms
over 30 layers where they lie side by side, and 21 ms with the heads between them. Each layer's rows
live on the device where that layer's weights live. Which slot belongs to whom is decided elsewhere;
this file only reads, writes and moves rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

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

    Layers of one shape share a tensor `[layers and K or V, kv_heads, slots, dim]`, so that moving
    rows is one operation however many layers there are.

    Args:
        layers: Shape of each layer, in order.
        slot_count: Rows of the pool.
    """

    def __init__(self, layers: list[LayerShape], slot_count: int) -> None:
        self.slot_count = slot_count
        places: dict[_RowShape, int] = {}
        keys = [_place(places, layer, layer.key_dim) for layer in layers]
        values = [_place(places, layer, layer.value_dim) for layer in layers]
        self._stores = {
            shape: torch.zeros(
                (count, shape.kv_heads, slot_count, shape.size),
                dtype=shape.dtype,
                device=shape.device,
            )
            for shape, count in places.items()
        }
        self._scratch: dict[tuple[str, _RowShape], Tensor] = {}
        self._shapes = [shape for shape, _ in keys], [shape for shape, _ in values]
        self._keys = [self._stores[shape][index] for shape, index in keys]
        self._values = [self._stores[shape][index] for shape, index in values]

    def write(self, layer: int, slots: Slots, keys: Tensor, values: Tensor) -> None:
        """Stores new rows.

        Args:
            layer: Index of the layer.
            slots: Where, one per row.
            keys: `[kv_heads, num_rows, key_dim]`.
            values: `[kv_heads, num_rows, value_dim]`.
        """
        self._keys[layer][:, slots] = keys
        self._values[layer][:, slots] = values

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Keys and values of some rows, `[kv_heads, num_rows, dim]`.

        A view where `slots` is a slice, else a copy that is good until the next call.
        """
        if isinstance(slots, slice):
            return self._keys[layer][:, slots], self._values[layer][:, slots]
        key_shapes, value_shapes = self._shapes
        return (
            self._gather("keys", key_shapes[layer], self._keys[layer], slots),
            self._gather("values", value_shapes[layer], self._values[layer], slots),
        )

    def _gather(self, what: str, shape: "_RowShape", rows: Tensor, slots: Tensor) -> Tensor:
        """Into memory that all layers use in turn: new pages took as long as the copy itself."""
        size = shape.kv_heads * len(slots) * shape.size
        scratch = self._scratch.get((what, shape))
        if scratch is None or scratch.numel() < size:
            with torch.inference_mode(False):
                scratch = rows.new_empty(size)
            self._scratch[what, shape] = scratch
        gathered = scratch[:size].view(shape.kv_heads, len(slots), shape.size)
        return torch.index_select(rows, 1, slots, out=gathered)

    def move(self, sources: list[int], destinations: list[int]) -> None:
        """Copies rows between slots in all layers, as if all were read before any is written."""
        for store in self._stores.values():
            taken = store[:, :, torch.tensor(sources, device=store.device)]
            store[:, :, torch.tensor(destinations, device=store.device)] = taken


class _RowShape(NamedTuple):
    """What the rows of one shared tensor have in common."""

    kv_heads: int
    size: int
    dtype: torch.dtype
    device: torch.device


def _place(places: dict[_RowShape, int], layer: LayerShape, size: int) -> tuple[_RowShape, int]:
    """The shared tensor and the index in it of one layer's keys or values."""
    shape = _RowShape(layer.kv_heads, size, layer.dtype, layer.device)
    index = places.get(shape, 0)
    places[shape] = index + 1
    return shape, index
