"""`Optimiser` on DeepSpeed, an optional extra: AdamW with its state spread over the ranks (ZeRO-1).

Its own checkpoints are pickles, so state is read out of it and put back tensor by tensor.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from outrider.settings import BadSettings
from outrider.training.optimiser import STATE, WEIGHT, OptimiserOptions

_MEANS = ("exp_avg", "exp_avg_sq")
_STEP = f"{STATE}:step"


class DeepSpeedOptimiser:
    """Trains a module's parameters that require gradients.

    Args:
        module: What to train, where it is to be trained.
        options: AdamW's settings.

    Raises:
        BadSettings: DeepSpeed is not installed.
    """

    module: nn.Module

    def __init__(self, module: nn.Module, options: OptimiserOptions) -> None:
        self._deepspeed: Any = import_deepspeed()
        self._trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
        adamw = torch.optim.AdamW(
            self._trained.values(), betas=options.betas, weight_decay=options.weight_decay
        )
        engine, *_ = self._deepspeed.initialize(
            model=module,
            optimizer=adamw,
            config={
                "train_micro_batch_size_per_gpu": 1,
                "gradient_clipping": options.max_norm,
                "zero_optimization": {"stage": 1},
                "zero_allow_untested_optimizer": True,
            },
        )
        self.module = self._engine = engine
        self._count_from(0.0)  # making room for its state counts as a step

    def joining(self, is_last: bool) -> AbstractContextManager[None]:
        """As `Optimiser.joining`."""
        self._engine.set_gradient_accumulation_boundary(is_last)
        return nullcontext()

    def backward(self, objective: Tensor) -> None:
        """As `Optimiser.backward`."""
        self._engine.backward(objective)

    def step(self, rate: float) -> float:
        """As `Optimiser.step`."""
        for group in self._engine.optimizer.param_groups:
            group["lr"] = rate
        self._engine.step()
        return float(self._engine.get_global_grad_norm() or 0.0)

    def state(self) -> dict[str, Tensor]:
        """As `Optimiser.state`."""
        read = self._deepspeed.utils.safe_get_full_optimizer_state
        named = {WEIGHT + name: parameter.detach() for name, parameter in self._trained.items()}
        for name, parameter in self._trained.items():
            named |= {f"{STATE}{name}:{mean}": read(parameter, mean) for mean in _MEANS}
        step = next(iter(self._states()))["step"]
        return {name: tensor.cpu() for name, tensor in {**named, _STEP: step}.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """As `Optimiser.load`."""
        utils = self._deepspeed.utils
        for name, parameter in self._trained.items():
            with torch.no_grad():
                parameter.copy_(state[WEIGHT + name])
            utils.safe_set_full_fp32_param(parameter, state[WEIGHT + name])
            for mean in _MEANS:
                value = state[f"{STATE}{name}:{mean}"].to(parameter.device)
                utils.safe_set_full_optimizer_state(parameter, value, mean)
        self._count_from(float(state[_STEP]))

    def _states(self) -> list[dict[str, Any]]:
        return list(self._engine.optimizer.optimizer.state.values())

    def _count_from(self, steps: float) -> None:
        for state in self._states():
            state["step"].fill_(steps)


def import_deepspeed() -> ModuleType:
    """DeepSpeed itself.

    Raises:
        BadSettings: It is not installed.
    """
    try:
        import deepspeed  # type: ignore[import-not-found]  # noqa: PLC0415  an extra
    except ImportError:
        raise BadSettings(
            "--parallel deepspeed needs DeepSpeed: pip install 'outrider[deepspeed]'"
        ) from None
    module: ModuleType = deepspeed
    return module
