"""A hash over a model's weights, the same however they are spread.

A weight in parts (tensor parallel) counts as the whole: all ranks ask together. One that a library
keeps in a form of its own (quantised) counts as the plain tensors inside.
"""

import hashlib
from collections.abc import Iterator, Mapping

from torch import Tensor
from torch.distributed.tensor import DTensor

SAMPLES = 4096  # values of each tensor that enter


def weights_fingerprint(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and evenly spaced values.

    Args:
        state: All weights by name.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        for path, plain in _plain_tensors(name, tensor.detach()):
            flat = plain.reshape(-1)
            picked = flat[:: max(1, flat.numel() // SAMPLES)].float().cpu().contiguous()
            digest.update(f"{path}{tuple(plain.shape)}".encode())
            digest.update(picked.numpy().tobytes())
    return digest.hexdigest()


def _plain_tensors(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if isinstance(tensor, DTensor):
        tensor = tensor.full_tensor()
    if hasattr(tensor, "__tensor_flatten__"):  # how subclasses show what they are made of
        for part in tensor.__tensor_flatten__()[0]:
            yield from _plain_tensors(f"{name}.{part}", getattr(tensor, part))
    else:
        yield name, tensor
