"""The EAGLE-3 family: features of several target layers fused, a vocabulary of the head's own.

Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time
Test" (2025), section 3; the options are those of later published heads.
"""

import torch
from torch import Tensor, nn

from outrider.modeling.heads.decoder_layer import DecoderLayer
from outrider.modeling.heads.draft_head import Attend, HeadOutput
from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.heads.rotary_embedding import RotaryEmbedding, Rotation
from outrider.modeling.heads.wide_norm import WideNorm


class FusedHead(nn.Module):
    """A `DraftHead`; parameters carry the normal-form names.

    Args:
        config: Of kind `eagle3`.
        rotary: Of its rope parameters.
        has_target_ids: True: the vocabulary is a reduced one, with a map.
    """

    target_ids: Tensor | None

    def __init__(self, config: HeadConfig, rotary: RotaryEmbedding, has_target_ids: bool) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.config = config
        self._rotary = rotary
        if config.fc_norm:
            self.fc_norm = nn.ModuleList(
                WideNorm(config.target_hidden_size, eps=eps) for _ in config.feature_layers
            )
        if config.norm_before_fc:
            self.input_norm = WideNorm(config.feature_size, eps=eps)
        self.fc = nn.Linear(config.feature_size, size, bias=config.fc_bias)
        self.embed_tokens = nn.Embedding(config.vocab_size, size)
        self.layers = nn.ModuleList(
            [
                JoiningLayer(config),
                *(DecoderLayer(config, index) for index in range(1, config.num_layers)),
            ]
        )
        self.norm = WideNorm(size, eps=eps)
        self.lm_head = nn.Linear(size, config.draft_vocab_size, bias=False)
        ids = torch.empty(config.draft_vocab_size, dtype=torch.int64) if has_target_ids else None
        self.register_buffer("target_ids", ids)

    def fuse(self, features: Tensor) -> Tensor:
        """As `DraftHead.fuse`."""
        if self.config.fc_norm:
            parts = features.chunk(len(self.fc_norm), dim=-1)
            normed = [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)]
            features = torch.cat(normed, dim=-1)
        if self.config.norm_before_fc:
            features = self.input_norm(features)
        hidden: Tensor = self.fc(features)
        return hidden

    def forward(
        self, token_ids: Tensor, hidden: Tensor, position_ids: Tensor, attend: Attend
    ) -> HeadOutput:
        """As `DraftHead.__call__`."""
        rotation = self._rotary(position_ids, hidden.dtype)
        first, *others = self.layers
        hidden = first(self.embed_tokens(token_ids), hidden, rotation, attend)
        for layer in others:
            hidden = layer(hidden, rotation, attend)
        normed = self.norm(hidden)
        return HeadOutput(normed, normed if self.config.norm_output else hidden)

    def logits(self, logit_input: Tensor) -> Tensor:
        """As `DraftHead.logits`."""
        logits: Tensor = self.lm_head(logit_input)
        return logits


class JoiningLayer(DecoderLayer):
    """Layer 0: its projections read [embedding; hidden], each half behind a norm of its own.

    The residual is the hidden state before its norm, unless the head was trained otherwise: with
    the other one a head still runs, and loses a quarter of its acceptance length.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config, index=0, input_size=2 * config.hidden_size)
        self.hidden_norm = WideNorm(config.hidden_size, eps=config.rms_norm_eps)
        self._norm_before_residual = config.norm_before_residual

    def forward(  # type: ignore[override]  # one input more than the layers behind it
        self, embedding: Tensor, hidden: Tensor, rotation: Rotation, attend: Attend
    ) -> Tensor:
        """Embeddings and hidden states, both `[..., num_rows, H]`, to hidden states."""
        normed = self.hidden_norm(hidden)
        joined = torch.cat([self.input_layernorm(embedding), normed], dim=-1)
        residual = normed if self._norm_before_residual else hidden
        return self.mix(residual, joined, rotation, attend)
