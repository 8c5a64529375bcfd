"""The training-time test of EAGLE-3: a head is trained on its own guesses, several steps deep.

Step 0 reads true features; each later step reads what the head itself fed back in the step before,
so that it learns to go on from there (EAGLE-3, section 3.2). An EAGLE-1 head is trained the same
way, and besides to reproduce the target's features (EAGLE, section 4.2). Knows neither files nor
ranks: sums come out, whoever calls decides what they are divided by.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from outrider.modeling.heads.draft_head import HeadOutput
from outrider.modeling.heads.fused_head import FusedHead
from outrider.modeling.heads.single_feature_head import SingleFeatureHead
from outrider.training.chain_attention import ChainAttention
from outrider.training.figures import ChainSums
from outrider.training.soft_loss import SoftTargets, soft_cross_entropy
from outrider.training.training_batch import TrainingBatch

TrainableHead = FusedHead | SingleFeatureHead


class ObjectiveAndSums(NamedTuple):
    """What came of a batch.

    Args:
        objective: What is minimised, a scalar with a gradient.
        sums: Rows in the order of `ChainSums`, float64 `[6, chain_steps]`.
    """

    objective: Tensor
    sums: Tensor


class HeadTraining(nn.Module):
    """A head with its objective.

    Args:
        head: Trained in place.
        token_weight: Of the cross-entropy.
        feature_weight: Of the smooth L1 distance between what is fed back and the true feature;
            0 where a head's hidden state is its own, as in EAGLE-3.
        product_dtype: What matrix products read. Weights, residuals, norms and losses are float32.
    """

    def __init__(
        self,
        head: TrainableHead,
        token_weight: float = 1.0,
        feature_weight: float = 0.0,
        product_dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.head = head
        self._token_weight, self._feature_weight = token_weight, feature_weight
        self._product_dtype = product_dtype

    def forward(self, batch: TrainingBatch, step_scales: Tensor) -> ObjectiveAndSums:
        """Runs all steps.

        Args:
            batch: At least one chain.
            step_scales: What a guess of each step weighs in the objective, float32
                `[chain_steps]`; their number is the number of steps.
        """
        with torch.autocast(
            batch.features.device.type,
            self._product_dtype,
            enabled=self._product_dtype is not torch.float32,
        ):
            hidden = self._run_chains(batch, len(step_scales))
        steps, chains = batch.counted.nonzero(as_tuple=True)
        counted = [batch.counted[0], *batch.counted[1:, batch.followed]]
        inputs = torch.cat([one.logit_input[c] for one, c in zip(hidden, counted, strict=True)])
        rows = batch.starts[chains] + steps + 1
        weights = step_scales[steps]
        result = soft_cross_entropy(
            inputs,
            self.head.lm_head.weight,
            SoftTargets(batch.targets.ids[rows], batch.targets.probs[rows]),
            weights * self._token_weight,
            self._product_dtype,
        )
        objective = result.total
        if self._feature_weight:
            fed_back = torch.cat([one.feedback[c] for one, c in zip(hidden, counted, strict=True)])
            true = batch.features[rows].to(fed_back.dtype)
            distances = functional.smooth_l1_loss(fed_back, true, reduction="none").mean(dim=-1)
            objective = objective + self._feature_weight * (distances * weights).sum()
        is_hit = torch.zeros_like(batch.counted)
        is_hit[steps, chains] = result.guesses == batch.draft_ids[rows + 1]
        losses = torch.zeros(len(step_scales), dtype=torch.float64, device=inputs.device)
        chains_by_step = torch.full_like(losses, batch.followable)
        chains_by_step[0] = len(batch.starts)
        sums = ChainSums(
            losses=losses.index_add_(0, steps, result.losses.double()),
            counted=batch.counted.sum(dim=1),
            hits=is_hit.sum(dim=1),
            reached=batch.reached.sum(dim=1),
            unbroken=is_hit.cumprod(dim=0).sum(dim=1),
            chains=chains_by_step,
        )
        return ObjectiveAndSums(objective, torch.stack([row.double() for row in sums]))

    def _run_chains(self, batch: TrainingBatch, chain_steps: int) -> list[HeadOutput]:
        """Output of each step, `[num_chains, H]` and then `[num_followed, H]`."""
        head, last_row = self.head, len(batch.token_ids) - 1
        followed_starts = batch.starts[batch.followed]
        attend = ChainAttention(batch.lengths, followed_starts, batch.followed_counts)
        # The last row of a conversation is given a token of the next; nobody sees that row.
        all_rows = head(
            batch.token_ids.roll(-1),
            head.fuse(batch.features.to(head.fc.weight.dtype)).to(head.fc.weight.dtype),
            batch.position_ids,
            attend,
        )
        outputs = [HeadOutput(*(part[batch.starts] for part in all_rows))]
        feedback = outputs[0].feedback[batch.followed]
        positions = batch.position_ids[followed_starts]
        for step in range(1, chain_steps):
            attend.begin(step)
            # Chains that have run out of text go on over what follows; they count nowhere.
            rows = (followed_starts + step + 1).clamp(max=last_row)
            outputs.append(head(batch.token_ids[rows], feedback, positions + step, attend))
            feedback = outputs[-1].feedback
        return outputs
