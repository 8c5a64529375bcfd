"""Which dtype a target is loaded in."""

import torch


def choose_dtype(setting: str, on_cpu: bool) -> torch.dtype | str:
    """Reads a `dtype` setting.

    Args:
        setting: Name of a torch dtype, or "auto".
        on_cpu: The target runs on the CPU.

    Returns:
        The dtype; for "auto" the checkpoint's own (which `transformers` calls "auto" too), except
        on a CPU without bf16 instructions: there bf16 is emulated, slower than float32.
    """
    if setting == "auto":
        is_emulated = on_cpu and not torch.cpu._is_avx512_bf16_supported()
        return torch.float32 if is_emulated else "auto"
    dtype = getattr(torch, setting)
    assert isinstance(dtype, torch.dtype)
    return dtype
