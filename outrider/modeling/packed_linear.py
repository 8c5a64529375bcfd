"""Linear layers whose weights oneDNN has laid out for its own kernels, for targets on a CPU.

A few rows at a time, as trees are, the ordinary kernel repacks the weights in every call: on AVX2
in float32 all layers of a 135M model took 41, 76, 79 and 67 ms for 1, 2, 4 and 8 rows, and 31, 31,
36 and 38 ms packed. The operators are those that torch's own compiler emits when it freezes models.
"""

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """A drop-in for one `nn.Linear`, for inference only; the given layer's weight is not kept.

    Args:
        linear: On the CPU, in float32 or bfloat16.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    @property
    def weight(self) -> Tensor:
        """A plain copy of the weight, `[out_features, in_features]`, made anew at each call."""
        plain: Tensor = self._packed.to_dense()
        return plain

    def forward(self, rows: Tensor) -> Tensor:
        """`[..., in_features]` to `[..., out_features]`."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._packed, self.bias, "none", [], ""
        )
        return result


def can_pack(linear: nn.Linear) -> bool:
    """True where this machine runs a packed layer at full speed."""
    weight = linear.weight
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if weight.device.type != "cpu" or not has_onednn:
        return False
    if weight.dtype is torch.bfloat16:
        return torch.cpu._is_avx512_bf16_supported()
    return weight.dtype is torch.float32
