"""The target: any causal language model that `transformers` loads, over a KV pool of ours.

The model's code is not changed: an attention function is registered, the ragged batch rides along
as a keyword argument, and the model's own cache stays off. A draft model is run by it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from outrider.modeling.feature_capture import FeatureCapture, can_capture
from outrider.modeling.kv_pool import KvPool, LayerShape
from outrider.modeling.linear_kernels import pack_linears
from outrider.modeling.quantization import Quantization
from outrider.modeling.ragged_attention import LayerProbe
from outrider.modeling.ragged_batch import RaggedBatch, SegmentRows, build_ragged_batch
from outrider.modeling.target_loading import load_network
from outrider.modeling.weights import held_bytes, weights_fingerprint


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What the checkpoint says of itself.

    Args:
        vocab_size: Width of the logits.
        context_limit: Positions the model was made for.
        eos_token_ids: End-of-sequence ids.
        hidden_size: Width of one hidden state; 0 where features cannot be taken from this model.
        layer_count: Decoder layers.
    """

    vocab_size: int
    context_limit: int
    eos_token_ids: tuple[int, ...]
    hidden_size: int
    layer_count: int


class PassOutput(NamedTuple):
    """One pass with features.

    Args:
        logits: `[num_logit_rows, vocab_size]`, raw, in the model's dtype.
        features: Hidden states at the boundaries asked for, side by side,
            `[num_feature_rows, len(feature_layers) * hidden_size]`, in the model's dtype.
    """

    logits: Tensor
    features: Tensor


class TargetModel:
    """A loaded target with its pool; `allocate` comes before the first `forward`.

    Args:
        model: In evaluation mode, with the ragged attention function set; its linear layers may be
            replaced by faster ones.

    Attributes:
        facts: What the checkpoint says of itself.
        fingerprint: Of all weights, as `weights_fingerprint`.
        weight_bytes: What the weights take in this process, as they were loaded.
        device: Where token ids go, and where logits and features come back.
        layers: What each attention layer stores per row, and where.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self.device = next(model.get_input_embeddings().parameters()).device
        self._pool: KvPool | None = None
        self.facts = _facts(model)
        self.fingerprint = weights_fingerprint(model.state_dict())
        self.weight_bytes = held_bytes(model.parameters())
        pack_linears(model)
        self.layers = self._probe()

    @classmethod
    def load(
        cls,
        source: str | Path,
        dtype: torch.dtype | str,
        device_map: str,
        quantization: Quantization = Quantization.NONE,
        rank_count: int = 1,
    ) -> "TargetModel":
        """As `load_network`, then as a target."""
        return cls(load_network(source, dtype, device_map, quantization, rank_count))

    @property
    def row_bytes(self) -> dict[torch.device, int]:
        """Bytes of one KV row over the layers of each device."""
        total: dict[torch.device, int] = {}
        for layer in self.layers:
            total[layer.device] = total.get(layer.device, 0) + layer.bytes_per_row
        return total

    @property
    def feature_bytes(self) -> int:
        """Bytes of one hidden state."""
        return self.facts.hidden_size * self._model.dtype.itemsize

    def allocate(self, slot_count: int) -> None:
        """Makes the pool.

        Args:
            slot_count: Rows, at least 1.
        """
        self._pool = KvPool(self.layers, slot_count)

    @torch.inference_mode()
    def forward(self, batch: RaggedBatch) -> Tensor:
        """One pass; the rows' keys and values are stored in the pool.

        Returns:
            Logits `[num_logit_rows, vocab_size]`, raw, in the model's dtype.
        """
        assert self._pool is not None, "allocate comes first"
        if len(batch.logit_rows):
            return self._call(self._model, batch, self._pool, logits_to_keep=batch.logit_rows)
        self._call(self._model.base_model, batch, self._pool)
        return torch.empty(0, self.facts.vocab_size)

    @torch.inference_mode()
    def forward_with_features(
        self,
        batch: RaggedBatch,
        feature_layers: Sequence[int],
        feature_rows: Tensor | None = None,
    ) -> PassOutput:
        """One pass that also hands out hidden states at layer boundaries.

        Args:
            batch: As for `forward`.
            feature_layers: Boundaries, numbered as in `HeadConfig.feature_layers`.
            feature_rows: Rows whose features are wanted, int64 `[num_feature_rows]`; None is all.

        Raises:
            ValueError: There is no such boundary, or this model shows none.
        """
        if feature_rows is None:
            feature_rows = torch.arange(len(batch.token_ids))
        with FeatureCapture(self._model).capture(feature_layers, feature_rows) as features:
            logits = self.forward(batch)
        return PassOutput(logits, features)

    @torch.inference_mode()
    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        """Copies KV rows between slots in all layers, as if read before any is written."""
        assert self._pool is not None, "allocate comes first"
        if sources:
            self._pool.move(sources, destinations)

    def _probe(self) -> list[LayerShape]:
        probe = LayerProbe()
        batch = build_ragged_batch([SegmentRows([0], [-1], 0, range(1), 0)])
        with torch.inference_mode():
            self._call(self._model, batch, probe)
        return [probe.layers[layer] for layer in sorted(probe.layers)]

    def _call(
        self,
        module: Any,
        batch: RaggedBatch,
        kv_pool: KvPool | LayerProbe,
        **options: Any,
    ) -> Tensor:
        output = module(
            input_ids=batch.token_ids[None].to(self.device),
            position_ids=batch.position_ids[None].to(self.device),
            use_cache=False,
            kv_pool=kv_pool,
            ragged_batch=batch,
            **options,
        )
        return output[0][0]  # type: ignore[no-any-return]


def _facts(model: PreTrainedModel) -> TargetFacts:
    config = model.config.get_text_config()
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return TargetFacts(
        vocab_size=int(getattr(head, "out_features", 0) or head.weight.shape[0]),
        context_limit=int(getattr(config, "max_position_embeddings", 0) or 2**31 - 1),
        eos_token_ids=_eos_token_ids(model.generation_config, config),
        hidden_size=int(config.hidden_size) if can_capture(model) else 0,
        layer_count=int(config.num_hidden_layers),
    )


def _eos_token_ids(generation: GenerationConfig | None, config: Any) -> tuple[int, ...]:
    for source in (generation, config):
        eos = getattr(source, "eos_token_id", None)
        if eos is not None:
            return tuple(eos) if isinstance(eos, list | tuple) else (int(eos),)
    return ()
