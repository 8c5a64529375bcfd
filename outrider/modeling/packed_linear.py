"""Linear layers whose weights oneDNN has laid out for its own kernels, for targets on a CPU.

A few rows at a time, as trees are, the ordinary kernel repacks the weights in every call: measured
on AVX2 in float32, the 49,152-row head takes 22 ms for two rows and 8 ms packed. For one row alone
the ordinary kernel is the faster one by a tenth, so both layouts are kept: on a CPU the weights of
linear layers take twice their size. The operators are those that torch's own compiler emits when it
freezes a model.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class PackedLinear(nn.Module):
    """A drop-in for one `nn.Linear`; for inference only.

    Args:
        linear: On the CPU, in float32 or bfloat16.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, rows: Tensor) -> Tensor:
        """`[..., in_features]` to `[..., out_features]`."""
        if rows.numel() == self.in_features:
            return functional.linear(rows, self.weight, self.bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._packed, self.bias, "none", [], ""
        )
        return result


def pack_linears(model: nn.Module) -> int:
    """Replaces the linear layers of a model that lie on the CPU, in place.

    Args:
        model: In evaluation mode; layers that share a weight keep the shared one elsewhere.

    Returns:
        How many layers were replaced.
    """
    replaced = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            # Exactly nn.Linear: a subclass (quantised, parallel) has a forward of its own.
            if type(child) is nn.Linear and _can_pack(child.weight):
                setattr(parent, name, PackedLinear(child))
                replaced += 1
    return replaced


def _can_pack(weight: Tensor) -> bool:
    """True where this machine runs a packed layer at full speed."""
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if weight.device.type != "cpu" or not has_onednn:
        return False
    if weight.dtype is torch.bfloat16:
        return torch.cpu._is_avx512_bf16_supported()
    return weight.dtype is torch.float32
