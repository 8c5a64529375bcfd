"""Root-mean-square norm of a head's layers."""

from torch import Tensor, nn


class WideNorm(nn.RMSNorm):
    """Works in its weight's dtype, whatever narrower one a product in front of it left.

    Serving has one dtype for all, so nothing is converted there; training with bfloat16 products
    keeps norms and residuals in float32.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """`[..., size]` to the same."""
        return super().forward(rows.to(self.weight.dtype))
