"""Gives the linear layers of a loaded model the fastest kernels that change no weight."""

from torch import nn

from outrider.modeling.half_linear import HalfLinear, can_halve, is_half_exact
from outrider.modeling.packed_linear import PackedLinear, can_pack


def pack_linears(model: nn.Module) -> int:
    """Replaces the linear layers of a model that lie on the CPU, in place.

    Args:
        model: In evaluation mode; a weight shared with another module stays there as it is.

    Returns:
        How many layers were replaced.
    """
    replaced = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            # Exactly nn.Linear: a subclass (quantised, parallel) has a forward of its own.
            if type(child) is not nn.Linear:
                continue
            if can_halve(child) and is_half_exact(child.weight):
                setattr(parent, name, HalfLinear(child))
            elif can_pack(child):
                setattr(parent, name, PackedLinear(child))
            else:
                continue
            replaced += 1
    return replaced
