"""How a head is trained: plain values that its result depends on. Pure."""

from dataclasses import asdict, dataclass
from typing import Any

from outrider.modeling.heads.head_config import HeadKind
from outrider.training.conversation import LossOn
from outrider.training.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Recipe:
    """A training run's settings.

    Args:
        kind: Family of the head.
        feature_layers: Boundaries that it reads.
        draft_vocab_size: Tokens asked for; the data may have fewer.
        likely_count: Tokens of the target's distribution that are kept as soft targets.
        loss_on: Which tokens count.
        chain_steps: Guesses of a chain, at least 1.
        follow_every: One chain of so many goes on beyond its first guess, at least 1.
        step_decay: Weight of a step's loss over that of the step before.
        token_weight: Of the cross-entropy.
        feature_weight: Of the distance to the true features (EAGLE-1).
        from_target: The layer starts as the target's last one.
        epochs: Passes over the data.
        batch_tokens: Most tokens of one optimisation step, over all ranks.
        peak_rate: Learning rate behind the warm-up.
        warmup_share: Of the steps.
        final_rate_share: Of the peak, at the end.
        weight_decay: Of AdamW.
        max_norm: Longest gradient.
        held_out_share: Of the prompts.
        max_tokens: Longest conversation; the rest is cut off.
        precision: What matrix products read, float32 or bfloat16; weights and sums are float32.
        seed: Of everything that is drawn.
    """

    kind: HeadKind
    feature_layers: tuple[int, ...]
    draft_vocab_size: int
    likely_count: int
    loss_on: LossOn
    chain_steps: int
    follow_every: int
    step_decay: float
    token_weight: float
    feature_weight: float
    from_target: bool
    epochs: int
    batch_tokens: int
    peak_rate: float
    warmup_share: float
    final_rate_share: float
    weight_decay: float
    max_norm: float
    held_out_share: float
    max_tokens: int
    precision: str
    seed: int

    def schedule(self, total_steps: int) -> Schedule:
        """Learning rates of a run of so many steps."""
        warmup = round(self.warmup_share * total_steps)
        return Schedule(self.peak_rate, total_steps, warmup, self.final_rate_share)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)
