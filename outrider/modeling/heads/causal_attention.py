"""Plain causal attention over whole sequences, as the `Attend` callback of a head.

For whoever has all rows at once: the canary, the first step of training, tests. Keeps nothing.
"""

from torch import Tensor
from torch.nn import functional


def causal_attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Each row sees the rows before it and itself.

    Args:
        layer: Not used: nothing is kept between calls.
        query: `[..., num_rows, heads, head_dim]`; leading dimensions are independent sequences
            (padding belongs on the right, where nobody sees it).
        key: `[..., num_rows, kv_heads, head_dim]`.
        value: The same.

    Returns:
        `[..., num_rows, heads, head_dim]`.
    """
    mixed = functional.scaled_dot_product_attention(
        query.transpose(-3, -2),
        key.transpose(-3, -2),
        value.transpose(-3, -2),
        is_causal=True,
        enable_gqa=True,
    )
    return mixed.transpose(-3, -2)
