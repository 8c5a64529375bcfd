"""What a draft head is, whatever format it was published in."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FINAL_NORM = -1  # as a feature layer: the last hidden state behind the target's final norm


class HeadKind(StrEnum):
    """Families of heads, by the method that introduced them."""

    EAGLE1 = "eagle1"  # one feature, fc(cat[embedding, feature]); EAGLE-2 uses the same networks
    EAGLE3 = "eagle3"  # fused features of several layers, a vocabulary of its own


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """A head in normal form; every loader produces this.

    Args:
        kind: Family.
        hidden_size: Width of the head, H.
        target_hidden_size: Width of one target feature, Ht.
        intermediate_size: Width of its MLP.
        num_layers: Decoder layers, at least 1.
        num_heads: Query heads.
        num_kv_heads: Key-value heads.
        head_dim: Size of one head.
        vocab_size: Vocabulary of the target, V.
        draft_vocab_size: Vocabulary of the head, Vd; V where it has no reduced one.
        feature_layers: Boundaries whose features are fused, low to high: i is the input of decoder
            layer i, the layer count the output of the last one, FINAL_NORM what the target's own
            language-model head reads.
        rms_norm_eps: Of all norms.
        hidden_act: Activation of the MLP.
        rope_parameters: Rotary embedding in the words of transformers 5: `rope_type`, `rope_theta`
            and what the type needs. Its length is the target's, never the head's.
        fc_bias: True: `fc` has a bias.
        attention_bias: True: the query, key and value projections have biases.
        qk_norm: True: queries and keys are normed per head.
        fc_norm: True: each feature is normed before `fc`.
        norm_before_fc: True: the concatenated features are normed before `fc`.
        norm_before_residual: True: the residual is the normed hidden state.
        norm_output: True: the normed output is what the next step is fed; else the un-normed one.
    """

    kind: HeadKind
    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    feature_layers: tuple[int, ...]
    rms_norm_eps: float
    hidden_act: str
    rope_parameters: Mapping[str, Any]
    fc_bias: bool = False
    attention_bias: bool = False
    qk_norm: bool = False
    fc_norm: bool = False
    norm_before_fc: bool = False
    norm_before_residual: bool = False
    norm_output: bool = False

    @property
    def feature_size(self) -> int:
        """Values of one token's features."""
        return len(self.feature_layers) * self.target_hidden_size
