"""What a model's weights are and what they take, in whatever form a library keeps them.

Quantised weights, and those of a model in parts, are tensors with plain ones inside.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor
from torch.distributed.tensor import DTensor

SAMPLES = 4096  # values of each tensor that enter


def weights_fingerprint(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and evenly spaced values, the same however they are spread.

    Args:
        state: All weights by name. Where they are in parts, all ranks ask together.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        for path, plain in _plain_tensors(name, whole.detach()):
            flat = plain.reshape(-1)
            picked = flat[:: max(1, flat.numel() // SAMPLES)].float().cpu().contiguous()
            digest.update(f"{path}{tuple(plain.shape)}".encode())
            digest.update(picked.numpy().tobytes())
    return digest.hexdigest()


def held_bytes(weights: Iterable[Tensor]) -> int:
    """Bytes that weights take in this process."""
    return sum(plain.nbytes for one in weights for _, plain in _plain_tensors("", one))


def _plain_tensors(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if not hasattr(tensor, "__tensor_flatten__"):  # how subclasses show what they are made of
        yield name, tensor
        return
    for part in tensor.__tensor_flatten__()[0]:
        inner = getattr(tensor, part)
        if isinstance(inner, Tensor):
            yield from _plain_tensors(f"{name}.{part}", inner)
