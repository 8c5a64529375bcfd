"""One optimisation step, whichever way the work is spread; and its state, in and out.

AdamW with clipped gradients. State is named by parameter and whole, so that a checkpoint is the
same whatever wrote it, and any number of ranks can go on from it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from outrider.training.parallel import ParallelKind, Ranks

WEIGHT, STATE = "weight:", "state:"  # beginnings of names in a checkpoint

_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
_INTO = StateDictOptions(full_state_dict=True, ignore_frozen_params=True, strict=False)


@dataclass(frozen=True, slots=True)
class OptimiserOptions:
    """AdamW's settings.

    Args:
        betas: Decay of the two running means.
        weight_decay: At least 0.
        max_norm: Gradients are scaled down to this length, all parameters together.
    """

    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_norm: float = 1.0


class Optimiser(Protocol):
    """Takes gradients and steps.

    Attributes:
        module: What to call: the module it was given, wrapped.
    """

    module: nn.Module

    def joining(self, is_last: bool) -> AbstractContextManager[None]:
        """Surrounds one forward and backward pass; gradients are joined in a step's last one."""

    def backward(self, objective: Tensor) -> None:
        """Adds one pass's gradients."""

    def step(self, rate: float) -> float:
        """Steps at a learning rate; returns the length of the gradient before clipping."""

    def state(self) -> dict[str, Tensor]:
        """Trained weights and AdamW's means by name, whole; every rank calls, the first gets it."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes what `state` gave; every rank calls with the same."""


class TorchOptimiser:
    """`Optimiser` on torch's own means: one process, DDP, or FSDP2.

    Args:
        module: Its parameters that require gradients are trained.
        kind: Not DEEPSPEED.
        ranks: Who trains together.
        options: AdamW's settings.
    """

    def __init__(
        self, module: nn.Module, kind: ParallelKind, ranks: Ranks, options: OptimiserOptions
    ) -> None:
        self._names = {name for name, p in module.named_parameters() if p.requires_grad}
        self.module = _wrap(module, kind, ranks)
        self._trained = [p for p in self.module.parameters() if p.requires_grad]
        self._adamw = torch.optim.AdamW(
            self._trained,
            betas=options.betas,
            weight_decay=options.weight_decay,
            # One kernel over all parameters; sharded ones have none on a CPU.
            fused=None if kind is ParallelKind.FSDP2 else True,
        )
        self._max_norm = options.max_norm

    def joining(self, is_last: bool) -> AbstractContextManager[None]:
        """As `Optimiser.joining`."""
        if isinstance(self.module, FSDPModule):
            self.module.set_requires_gradient_sync(is_last)
        if isinstance(self.module, DistributedDataParallel) and not is_last:
            return self.module.no_sync()
        return nullcontext()

    def backward(self, objective: Tensor) -> None:
        """As `Optimiser.backward`."""
        objective.backward()  # type: ignore[no-untyped-call]

    def step(self, rate: float) -> float:
        """As `Optimiser.step`."""
        for group in self._adamw.param_groups:
            group["lr"] = rate
        norm: Any = nn.utils.clip_grad_norm_(self._trained, self._max_norm)
        self._adamw.step()
        self._adamw.zero_grad()
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    def state(self) -> dict[str, Tensor]:
        """As `Optimiser.state`."""
        weights: Any = get_model_state_dict(self.module, options=_WHOLE)
        means: Any = get_optimizer_state_dict(self.module, self._adamw, options=_WHOLE)
        # Other ranks than the first get nothing; buffers are not trained.
        named: dict[str, Tensor] = {WEIGHT + n: weights[n] for n in self._names & weights.keys()}
        for name, values in means.get("state", {}).items():
            named |= {f"{STATE}{name}:{key}": value for key, value in values.items()}
        return named

    def load(self, state: Mapping[str, Tensor]) -> None:
        """As `Optimiser.load`."""
        means: dict[str, Any] = {}
        for name, tensor in state.items():
            if name.startswith(STATE):
                parameter, key = name.removeprefix(STATE).rsplit(":", 1)
                means.setdefault(parameter, {})[key] = tensor
        weights: dict[str, Any] = {**trained_weights(state)}
        set_model_state_dict(self.module, weights, options=_INTO)
        whole: dict[str, Any] = get_optimizer_state_dict(self.module, self._adamw, options=_WHOLE)
        set_optimizer_state_dict(self.module, self._adamw, {**whole, "state": means}, options=_INTO)


def trained_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights alone of what `Optimiser.state` gives."""
    return {
        name.removeprefix(WEIGHT): tensor
        for name, tensor in state.items()
        if name.startswith(WEIGHT)
    }


def _wrap(module: nn.Module, kind: ParallelKind, ranks: Ranks) -> nn.Module:
    if kind is ParallelKind.DDP:
        return DistributedDataParallel(module, broadcast_buffers=False)
    if kind is ParallelKind.FSDP2:
        mesh = init_device_mesh(ranks.device.type, (ranks.count,))
        frozen = {p for p in module.parameters() if not p.requires_grad}
        fully_shard(module, mesh=mesh, ignored_params=frozen)  # turns it into a sharded one
    return module
