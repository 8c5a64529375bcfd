"""One decoder layer of a head: attention through a callback, then the gated MLP, both residual."""

from torch import Tensor, nn
from transformers.activations import ACT2FN

from outrider.modeling.heads.draft_head import Attend
from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.heads.rotary_embedding import Rotation
from outrider.modeling.heads.wide_norm import WideNorm


class DecoderLayer(nn.Module):
    """The layer of Llama and its kin.

    Args:
        config: The head's.
        index: Which layer, from 0; told to `attend`.
        has_input_norm: False: the layer attends over its input as it is (layer 0 of EAGLE-1).
        input_size: Width that the projections read; None is H.
    """

    def __init__(
        self,
        config: HeadConfig,
        index: int,
        has_input_norm: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = WideNorm(size, eps=eps) if has_input_norm else nn.Identity()
        self.self_attn = SelfAttention(config, index, input_size or size)
        self.post_attention_layernorm = WideNorm(size, eps=eps)
        self.mlp = GatedMlp(config)

    def forward(self, hidden: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """Hidden states `[..., num_rows, H]` to the same."""
        return self.mix(hidden, self.input_layernorm(hidden), rotation, attend)

    def mix(self, residual: Tensor, normed: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """The layer behind its input norm.

        Args:
            residual: `[..., num_rows, H]`.
            normed: What the projections read, `[..., num_rows, input_size]`.
            rotation: Of the rows' positions.
            attend: As in `DraftHead`.
        """
        hidden = residual + self.self_attn(normed, rotation, attend)
        result: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return result


class SelfAttention(nn.Module):
    """Projections and rotary positions; who sees whom is the callback's affair."""

    def __init__(self, config: HeadConfig, index: int, input_size: int) -> None:
        super().__init__()
        self._index, self._head_dim = index, config.head_dim
        query_size = config.num_heads * config.head_dim
        kv_size = config.num_kv_heads * config.head_dim
        bias = config.attention_bias
        self.q_proj = nn.Linear(input_size, query_size, bias=bias)
        self.k_proj = nn.Linear(input_size, kv_size, bias=bias)
        self.v_proj = nn.Linear(input_size, kv_size, bias=bias)
        self.o_proj = nn.Linear(query_size, config.hidden_size, bias=False)
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        if config.qk_norm:
            self.q_norm = WideNorm(config.head_dim, eps=config.rms_norm_eps)
            self.k_norm = WideNorm(config.head_dim, eps=config.rms_norm_eps)

    def forward(self, rows: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """`[..., num_rows, input_size]` to `[..., num_rows, H]`."""
        query = self.q_norm(self._by_head(self.q_proj(rows)))
        key = self.k_norm(self._by_head(self.k_proj(rows)))
        value = self._by_head(self.v_proj(rows))
        mixed = attend(self._index, rotation.apply(query), rotation.apply(key), value)
        result: Tensor = self.o_proj(mixed.flatten(-2))
        return result

    def _by_head(self, rows: Tensor) -> Tensor:
        return rows.reshape(*rows.shape[:-1], rows.shape[-1] // self._head_dim, self._head_dim)


class GatedMlp(nn.Module):
    """`down(act(gate(x)) * up(x))`."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)
        self._activate = ACT2FN[config.hidden_act]

    def forward(self, rows: Tensor) -> Tensor:
        """`[..., H]` to the same."""
        result: Tensor = self.down_proj(self._activate(self.gate_proj(rows)) * self.up_proj(rows))
        return result
