"""Runs a target over two devices that do not exist, to see that nothing mixes them up.

Tensors are torch's fake ones: they have a shape and a device and no values, and an operation on
tensors of two devices fails as on real ones. `accelerate` moves what goes from layer to layer, as
on GPUs. A program of its own, because the device it registers stays registered.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from accelerate import dispatch_model
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import backend_registration
from transformers import AutoModelForCausalLM

from outrider.modeling import target as target_module
from outrider.modeling.heads.head_config import FINAL_NORM
from outrider.modeling.ragged_attention import ATTENTION_NAME
from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from outrider.modeling.target import TargetModel
from tests.unit.modeling.tiny_models import VOCAB, configs

FIRST, SECOND = (torch.device("privateuseone", index) for index in (0, 1))
PLACES = {
    "model.embed_tokens": FIRST,
    "model.rotary_emb": FIRST,
    "model.layers.0": FIRST,
    "model.layers.1": SECOND,
    "model.norm": SECOND,
    "lm_head": SECOND,
}


def check_family(family: str) -> None:
    """Prefill, trees on scattered rows, features of both devices, moves."""
    model: Any = AutoModelForCausalLM.from_config(configs()[family], dtype=torch.bfloat16)
    model.set_attn_implementation(ATTENTION_NAME)
    for name, device in PLACES.items():
        place(model.get_submodule(name), device)
    dispatch_model(model.eval(), PLACES)
    target = TargetModel(model)
    assert list(target.row_bytes) == [FIRST, SECOND], target.row_bytes
    target.allocate(256)
    scattered = [2 * slot for slot in range(40, 56)]
    chain = SegmentRows(range(9), range(-1, 8), 0, range(9), 9)
    other = SegmentRows(range(9), range(-1, 8), 0, scattered[:9], 9)
    target.forward(build_ragged_batch([chain, other]))
    tree = SegmentRows([5, 6, 7], [-1, 0, 0], 9, range(12), 0)
    other = SegmentRows([5, 6, 7, 8], [-1, 0, 1, 1], 9, scattered[:13], 0)
    batch = build_ragged_batch([tree, other])
    output = target.forward_with_features(batch, (0, 1, 2, FINAL_NORM))
    assert output.logits.shape == (7, VOCAB)
    assert output.features.shape == (7, 4 * 32)
    assert output.logits.device == output.features.device == target.device == FIRST
    target.move_rows([11, 94], [10, 92])


def place(module: nn.Module, device: torch.device) -> None:
    for one in module.modules():
        for name, weight in list(one._parameters.items()):
            if weight is not None:
                moved = nn.Parameter(weight.to(device), requires_grad=False)
                one._parameters[name] = moved
        for name, buffer in list(one._buffers.items()):
            one._buffers[name] = None if buffer is None else buffer.to(device)


def without_values(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Torch remembers the values of small fake tensors, and would compute with them in earnest."""

    def tensor(*args: Any, device: torch.device | None = None, **kwargs: Any) -> Tensor:
        made = make(*args, **kwargs)
        if isinstance(made, FakeTensor):
            made.constant = None
        return made if device is None else made.to(device)

    return tensor


def main(families: list[str]) -> None:
    backend_registration._setup_privateuseone_for_python_backend()
    torch.tensor = without_values(torch.tensor)
    # A fake tensor has no values to hash.
    vars(target_module)["weights_fingerprint"] = lambda state: ""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        for family in families:
            check_family(family)
            print(family)


if __name__ == "__main__":
    main(sys.argv[1:])
