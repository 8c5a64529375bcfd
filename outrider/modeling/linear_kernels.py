"""Gives the linear layers of a loaded model faster kernels, in place."""

from collections.abc import Callable

from torch import nn

from outrider.modeling.half_linear import HalfLinear, can_halve, is_half_exact
from outrider.modeling.packed_linear import PackedLinear, can_pack


def pack_linears(model: nn.Module) -> int:
    """Takes the fastest kernels that change no weight, for a target.

    Args:
        model: In evaluation mode; a weight shared with another module stays there as it is.

    Returns:
        How many layers were replaced: those on the CPU for which there is a faster kernel.
    """

    def replacement(linear: nn.Linear) -> nn.Module | None:
        if can_halve(linear) and is_half_exact(linear.weight):
            return HalfLinear(linear)
        return PackedLinear(linear) if can_pack(linear) else None

    return _replace_linears(model, replacement)


def halve_linears(model: nn.Module) -> int:
    """Rounds all float32 weights on the CPU to float16, for a head: guesses need not be exact.

    Args:
        model: In evaluation mode.

    Returns:
        How many layers were replaced; none where this build of torch lacks the kernel.
    """
    return _replace_linears(model, lambda one: HalfLinear(one) if can_halve(one) else None)


def _replace_linears(model: nn.Module, replacement: Callable[[nn.Linear], nn.Module | None]) -> int:
    replaced = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and _is_plain(child):
                faster = replacement(child)
                if faster is not None:
                    setattr(parent, name, faster)
                    replaced += 1
    return replaced


def _is_plain(linear: nn.Linear) -> bool:
    """False where the layer is quantised, in parts, or moved between devices: all these have a
    class, a weight or a forward of their own."""
    return (
        type(linear) is nn.Linear
        and type(linear.weight) is nn.Parameter
        and "forward" not in vars(linear)
    )
