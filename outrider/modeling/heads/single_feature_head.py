"""The EAGLE-1 family (EAGLE-2 has the same networks): one feature, the target's own `lm_head`.

The head predicts the next feature itself, so there is no norm behind its layers, and what it
predicts goes where the target's last hidden state goes. Li et al., "EAGLE: Speculative Sampling
Requires Rethinking Feature Uncertainty" (2024), section 4.
"""

import torch
from torch import Tensor, nn

from outrider.modeling.heads.decoder_layer import DecoderLayer
from outrider.modeling.heads.draft_head import Attend, HeadOutput
from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.heads.rotary_embedding import RotaryEmbedding


class SingleFeatureHead(nn.Module):
    """A `DraftHead`; parameters carry the normal-form names.

    Args:
        config: Of kind `eagle1`.
        rotary: Of its rope parameters.
        has_target_ids: True: `lm_head` has only some of the target's rows, with a map.
    """

    target_ids: Tensor | None

    def __init__(self, config: HeadConfig, rotary: RotaryEmbedding, has_target_ids: bool) -> None:
        super().__init__()
        size = config.hidden_size
        self.config = config
        self._rotary = rotary
        self.embed_tokens = nn.Embedding(config.vocab_size, size)
        self.fc = nn.Linear(2 * size, size, bias=config.fc_bias)
        self.layers = nn.ModuleList(
            DecoderLayer(config, index, has_input_norm=index > 0)
            for index in range(config.num_layers)
        )
        self.lm_head = nn.Linear(size, config.draft_vocab_size, bias=False)
        ids = torch.empty(config.draft_vocab_size, dtype=torch.int64) if has_target_ids else None
        self.register_buffer("target_ids", ids)

    def fuse(self, features: Tensor) -> Tensor:
        """As `DraftHead.fuse`: the one feature is the hidden state."""
        return features

    def forward(
        self, token_ids: Tensor, hidden: Tensor, position_ids: Tensor, attend: Attend
    ) -> HeadOutput:
        """As `DraftHead.__call__`."""
        rotation = self._rotary(position_ids, hidden.dtype)
        joined = torch.cat([self.embed_tokens(token_ids), hidden], dim=-1)
        hidden = self.fc(joined).to(hidden.dtype)  # narrower in training with narrow products
        for layer in self.layers:
            hidden = layer(hidden, rotation, attend)
        return HeadOutput(hidden, hidden)

    def logits(self, logit_input: Tensor) -> Tensor:
        """As `DraftHead.logits`."""
        logits: Tensor = self.lm_head(logit_input)
        return logits
