"""A recipe for tests."""

from dataclasses import replace
from typing import Any

from outrider.modeling.heads.head_config import HeadKind
from outrider.training.conversation import LossOn
from outrider.training.recipe import Recipe

_RECIPE = Recipe(
    kind=HeadKind.EAGLE3,
    feature_layers=(1, 2, 3),
    draft_vocab_size=13,
    likely_count=3,
    loss_on=LossOn.ANSWER,
    chain_steps=4,
    follow_every=1,
    step_decay=0.8,
    token_weight=1.0,
    feature_weight=0.0,
    from_target=True,
    epochs=1,
    batch_tokens=100,
    peak_rate=1e-2,
    warmup_share=0.1,
    final_rate_share=0.1,
    weight_decay=0.0,
    max_norm=1.0,
    held_out_share=0.1,
    max_tokens=64,
    precision="float32",
    seed=0,
)


def make_recipe(**changes: Any) -> Recipe:
    return replace(_RECIPE, **changes)
