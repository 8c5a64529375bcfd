"""What every draft head can do; how it attends is the caller's affair.

Row p of a head joins the feature of position p with the token at p + 1 and guesses the token at
p + 2. Serving attends over a KV pool, training over whole sequences with their own earlier guesses.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from outrider.modeling.heads.head_config import HeadConfig

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""`(layer, query, key, value) -> mixed`: query and mixed `[..., num_rows, heads, head_dim]`, key
and value `[..., num_rows, kv_heads, head_dim]`, rotary positions applied. Leading dimensions are
the caller's own."""


class HeadOutput(NamedTuple):
    """One pass over some rows.

    Args:
        logit_input: What `logits` takes, `[..., num_rows, H]`.
        feedback: The hidden state that the next step takes, `[..., num_rows, H]`.
    """

    logit_input: Tensor
    feedback: Tensor


class DraftHead(Protocol):
    """A loaded head, `nn.Module` besides.

    Attributes:
        config: What it is.
        target_ids: Target token id of each draft token, int64 `[draft_vocab_size]`; None where the
            vocabularies are one.
    """

    config: HeadConfig
    target_ids: Tensor | None

    def fuse(self, features: Tensor) -> Tensor:
        """True features `[..., num_rows, feature_size]` as hidden states `[..., num_rows, H]`."""

    def __call__(
        self, token_ids: Tensor, hidden: Tensor, position_ids: Tensor, attend: Attend
    ) -> HeadOutput:
        """One step.

        Args:
            token_ids: Token behind each row's position, int64 `[..., num_rows]`.
            hidden: `fuse` of true features or the feedback of earlier rows, `[..., num_rows, H]`.
            position_ids: Position of each row's feature, int64 `[..., num_rows]`.
            attend: Keeps keys and values and mixes them.
        """

    def logits(self, logit_input: Tensor) -> Tensor:
        """Logits over the draft vocabulary, `[..., num_rows, draft_vocab_size]`."""
