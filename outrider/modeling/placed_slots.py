"""Slots of the KV pool, where the devices that read them can index with them."""

from itertools import pairwise

import torch
from torch import Tensor

from outrider.modeling.kv_pool import Slots


class PlacedSlots:
    """Slots of some rows, copied once to each device whose layers ask for them.

    Args:
        slots: A slice, which needs no copy, or int64 `[num_rows]` on the CPU.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._copies: dict[torch.device, Tensor] = {}

    def on(self, device: torch.device) -> Slots:
        """The slots, where that device can index with them."""
        if isinstance(self._slots, slice):
            return self._slots
        if device not in self._copies:
            self._copies[device] = self._slots.to(device)
        return self._copies[device]


def as_slots(slots: range | list[int]) -> PlacedSlots:
    """A slice where the slots rise one by one, so that the pool gives a view."""
    if isinstance(slots, range) or all(b - a == 1 for a, b in pairwise(slots)):
        return PlacedSlots(slice(slots[0], slots[-1] + 1))
    return PlacedSlots(torch.tensor(slots))
