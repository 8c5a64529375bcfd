"""Copies the features of a step's committed rows off the device, and cuts them up by session."""

from collections.abc import Sequence

import torch
from torch import Tensor

from outrider.protocol.features import TensorType
from verify_service.feature_pool import FeaturePool
from verify_service.step import FeatureBlock, Segment

_WIRE = {  # type on the wire, integers of the same width, and their little-endian form
    torch.float32: (TensorType.FLOAT32, torch.int32, "<i4"),
    torch.float16: (TensorType.FLOAT16, torch.int16, "<i2"),
    torch.bfloat16: (TensorType.BFLOAT16, torch.int16, "<i2"),
}


class FeatureReader:
    """The features of a step's sessions: of the rows that it ran, and of those before.

    Args:
        pool: Holds them.
        layers: Those of all segments, low to high.
        segments: What was run; each reads its own layers only.
    """

    def __init__(
        self, pool: FeaturePool, layers: Sequence[int], segments: Sequence[Segment]
    ) -> None:
        self._pool = pool
        self._layers = list(layers)
        self._segments = segments

    def read(self, rows: Sequence[Sequence[int]]) -> list[FeatureBlock | None]:
        """As `StepAnswers.features_of`."""
        wanted = [
            segment.slots[segment.cached_rows + row]
            for segment, its_rows in zip(self._segments, rows, strict=True)
            for row in its_rows
        ]
        # One copy for the whole step: each waits for the device.
        taken = self._pool.read(self._layers, wanted).cpu()
        blocks: list[FeatureBlock | None] = []
        start = 0
        for segment, its_rows in zip(self._segments, rows, strict=True):
            stop = start + len(its_rows)
            blocks.append(self._block(taken[start:stop], segment) if its_rows else None)
            start = stop
        return blocks

    def _block(self, rows: Tensor, segment: Segment) -> FeatureBlock:
        """`rows` has the columns of all layers of the step."""
        columns = rows.chunk(len(self._layers), dim=1)
        own = torch.cat([columns[self._layers.index(one)] for one in segment.feature_layers], dim=1)
        tensor_type, integers, order = _WIRE[own.dtype]
        data = own.view(integers).numpy().astype(order, copy=False).tobytes()
        return FeatureBlock(data, own.shape[1], tensor_type)
