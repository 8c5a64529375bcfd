"""Linear layers that keep float16 weights and compute in float32, on a CPU.

A few rows are bound by reading the weights: on one core all layers of a 135M model took 35 ms for
one row and 42 ms for four, against 60 and 82 ms with float32 weights. Where every weight is a
float16 number, as those of a bfloat16 checkpoint are but for very small ones, nothing is lost:
products and sums are float32 as before.
"""

import torch
from torch import Tensor, nn


class HalfLinear(nn.Module):
    """A drop-in for one `nn.Linear`, for inference only; the given layer's weight is not kept.

    Args:
        linear: On the CPU, in float32. Weights beyond the range of float16 are cut to it.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        limit = torch.finfo(torch.float16).max
        weight = linear.weight.detach().clamp(-limit, limit)
        bias = None if linear.bias is None else linear.bias.detach()
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)

    def forward(self, rows: Tensor) -> Tensor:
        """`[..., in_features]` to `[..., out_features]`, float32."""
        result: Tensor = torch.ops.quantized.linear_dynamic_fp16(rows, self._packed)
        return result


def can_halve(linear: nn.Linear) -> bool:
    """True where the layer lies on the CPU in float32 and this build of torch has the kernel."""
    weight = linear.weight
    has_kernel = "fbgemm" in torch.backends.quantized.supported_engines
    return has_kernel and weight.device.type == "cpu" and weight.dtype is torch.float32


def is_half_exact(weight: Tensor) -> bool:
    """True where float16 holds every weight exactly."""
    return bool(torch.equal(weight.half().float(), weight))
