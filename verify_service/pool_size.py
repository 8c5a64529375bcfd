"""How many blocks the KV pool gets: as many as a size or a share of free memory allows.

One rule decides between the two: a share, where one is set. Each row of the pool lies in pieces, on
each device the layers that live there, so the device with the least room for its piece decides how
many rows there are. Knows numbers and names only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MIB = 2**20


class PoolDoesNotFit(Exception):
    """The pool that is asked for is too large for a device; the message names both."""


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """One device of the target, with its weights on it.

    Args:
        name: For people, such as "cuda:1".
        free_bytes: Left beside the weights.
        row_bytes: One row of the pool in the layers of this device, at least 1.
        feature_bytes: Features of one row, kept beside the pool where heads ask for them; 0 on
            devices that keep none.
    """

    name: str
    free_bytes: int
    row_bytes: int
    feature_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The pool.

    Args:
        block_count: Blocks.
        block_size: Rows of a block.
        devices: Where they lie.
    """

    block_count: int
    block_size: int
    devices: tuple[DeviceRoom, ...]

    @property
    def row_count(self) -> int:
        """Rows, one for each token."""
        return self.block_count * self.block_size

    def bytes_on(self, device: DeviceRoom) -> int:
        """What one device holds of it."""
        return self.row_count * device.row_bytes

    def __str__(self) -> str:
        places = ", ".join(
            f"{self.bytes_on(device) // MIB} of {device.free_bytes // MIB} free MiB on "
            f"{device.name}"
            for device in self.devices
        )
        return f"{self.block_count} blocks of {self.block_size}, {self.row_count} tokens: {places}"


def pool_by_share(devices: Sequence[DeviceRoom], block_size: int, share: float) -> PoolSize:
    """The largest pool that, with the features of its rows, takes no more than a share of any
    device's free memory.

    Args:
        devices: At least one.
        block_size: Rows of a block, at least 1.
        share: Above 0, below 1.
    """
    rows = min(
        int(share * device.free_bytes) // (device.row_bytes + device.feature_bytes)
        for device in devices
    )
    return PoolSize(max(0, rows) // block_size, block_size, tuple(devices))


def pool_of_bytes(devices: Sequence[DeviceRoom], block_size: int, size_bytes: int) -> PoolSize:
    """The pool of some size over all devices.

    Args:
        devices: At least one.
        block_size: Rows of a block, at least 1.
        size_bytes: Most bytes of all devices together.

    Raises:
        PoolDoesNotFit: A device has no room for its piece.
    """
    rows = size_bytes // sum(device.row_bytes for device in devices)
    size = PoolSize(rows // block_size, block_size, tuple(devices))
    for device in devices:
        if size.bytes_on(device) > device.free_bytes:
            raise PoolDoesNotFit(
                f"{-(-size.bytes_on(device) // MIB)} MiB of it would lie on {device.name}, where "
                f"{device.free_bytes // MIB} MiB are free"
            )
    return size
