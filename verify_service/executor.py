"""Runs steps on the torch target: the step's plain values become tensors here and nowhere else."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from outrider.modeling.ragged_batch import RaggedBatch, SegmentRows, build_ragged_batch
from outrider.modeling.ruled_logits import ruled_logits
from outrider.modeling.token_choice import (
    greedy_tokens,
    likely_token,
    log_prob,
    sampled_token,
    top_log_probs,
)
from outrider.protocol.decoding import TopLogProbs
from outrider.protocol.errors import BadGrammar
from outrider.protocol.features import depth_of
from verify_service.feature_pool import FeaturePool
from verify_service.feature_reader import FeatureReader
from verify_service.step import (
    Constraints,
    FeatureBlock,
    NonFiniteLogits,
    NoTokenAllowed,
    Segment,
    TargetTokens,
)


class TorchModel(Protocol):
    """What the executor needs of `outrider.modeling.target.TargetModel`."""

    def forward(self, batch: RaggedBatch) -> Tensor:
        """Logits of the wanted rows, `[num_logit_rows, vocab_size]`."""

    def forward_with_features(
        self, batch: RaggedBatch, feature_layers: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """The same, and features of all rows, `[num_rows, len(feature_layers) * hidden_size]`."""

    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        """Copies KV rows between slots."""


class TorchExecutor:
    """The `Target` of the engine, over a torch model whose pool is allocated.

    Args:
        model: The model.
        slot_count: Rows of its pool.
    """

    def __init__(self, model: TorchModel, slot_count: int) -> None:
        self._model = model
        self._features = FeaturePool(slot_count)

    def run(self, segments: Sequence[Segment]) -> "TorchAnswers":
        """As `Target.run`."""
        batch = build_ragged_batch([_rows(segment) for segment in segments])
        wanted = {layer for segment in segments for layer in segment.feature_layers}
        layers = tuple(sorted(wanted, key=depth_of))
        if not layers:
            return TorchAnswers(_tokens(segments, self._model.forward(batch)), None)
        logits, features = self._model.forward_with_features(batch, layers)
        written = [
            slot
            for segment in segments
            for slot in segment.slots[segment.cached_rows :][: len(segment.token_ids)]
        ]
        self._features.write(layers, torch.tensor(written), features)
        reader = FeatureReader(self._features, layers, segments)
        return TorchAnswers(_tokens(segments, logits), reader)

    def move_rows(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """As `Target.move_rows`."""
        self._model.move_rows(list(sources), list(destinations))
        self._features.move(sources, destinations)


@dataclass(frozen=True, slots=True)
class TorchAnswers:
    """The `StepAnswers` of the executor; without a reader where nobody wants features."""

    tokens: list[TargetTokens | None]
    reader: FeatureReader | None

    def features_of(self, rows: Sequence[Sequence[int]]) -> list[FeatureBlock | None]:
        """As `StepAnswers.features_of`."""
        return self.reader.read(rows) if self.reader else [None] * len(rows)


def _tokens(segments: Sequence[Segment], logits: Tensor) -> list[TargetTokens | None]:
    # One check and one copy for all rows: on a GPU each would wait for the device.
    finite = logits.isfinite().all(dim=-1).tolist()
    greedy = greedy_tokens(logits).tolist() if any(_is_greedy(s) for s in segments) else []
    answers: list[TargetTokens | None] = []
    start = 0
    for segment in segments:
        if segment.tree_start is None:
            answers.append(None)
            continue
        stop = start + len(segment.token_ids) - segment.tree_start
        answers.append(
            _SegmentTokens(segment, logits[start:stop], finite[start:stop], greedy[start:stop])
        )
        start = stop
    return answers


class _SegmentTokens:
    """The tokens of one tree; sampled ones are drawn only at the nodes that the walk reaches."""

    def __init__(
        self, segment: Segment, logits: Tensor, finite: list[bool], greedy: list[int]
    ) -> None:
        self._segment = segment
        self._logits = logits
        self._finite = finite
        self._greedy = greedy

    def token_at(self, node: int) -> int:
        """As `TargetTokens.token_at`."""
        if not self._finite[node]:
            raise NonFiniteLogits("the target gave NaN or infinite logits for this session")
        segment = self._segment
        if segment.constraints is None and _is_greedy(segment):
            return self._greedy[node]
        logits, position = self._drawn_from(node)
        if _is_greedy(segment):
            return int(greedy_tokens(logits))
        return sampled_token(logits, segment.sampling, position)

    def likely_at(self, node: int, token_ids: Collection[int], threshold: float) -> int | None:
        """As `TargetTokens.likely_at`."""
        logits, _ = self._drawn_from(node)
        return likely_token(logits, token_ids, threshold)

    def log_prob_at(self, node: int, token_id: int) -> float:
        """As `TargetTokens.log_prob_at`."""
        return log_prob(self._logits[node], token_id)

    def top_at(self, node: int, count: int) -> TopLogProbs:
        """As `TargetTokens.top_at`."""
        return top_log_probs(self._logits[node], count)

    def _drawn_from(self, node: int) -> tuple[Tensor, int]:
        """Logits that the token behind a node is drawn from, and its position."""
        segment, path = self._segment, self._path(node)
        position = segment.cached_rows + (segment.tree_start or 0) + len(path) + 1
        logits = self._logits[node]
        if segment.constraints is not None:
            logits = _constrained(logits, segment.constraints, path, position)
        return logits, position

    def _path(self, node: int) -> list[int]:
        """Tokens from below the tree's root down to a node."""
        root = self._segment.tree_start or 0
        row, path = node + root, []
        while row > root:
            path.append(self._segment.token_ids[row])
            row = self._segment.parents[row]
        return path[::-1]


def _constrained(
    logits: Tensor, constraints: Constraints, path: Sequence[int], position: int
) -> Tensor:
    """Logits that the token of a position is drawn from, `[vocab_size]`."""
    history, follower = constraints.history, constraints.follower
    scores = ruled_logits(
        logits,
        constraints.rules,
        history.prompt_ids if history else (),
        history.counts_behind(path) if history else {},
        constraints.barred_ids if position < constraints.barred_before else (),
    )
    if follower is not None:
        try:
            allowed = torch.from_numpy(follower.allowed_behind(path)).to(scores.device)
        except BadGrammar as error:
            raise NoTokenAllowed(f"sampling.grammar: {error}") from error
        scores.masked_fill_(~allowed, -torch.inf)
    if scores.max() == -torch.inf:
        raise NoTokenAllowed(
            f"no token may come at position {position}: what is allowed, banned, barred by "
            "min_new_tokens and left by the grammar have none in common"
        )
    return scores


def _rows(segment: Segment) -> SegmentRows:
    num_rows = len(segment.token_ids)
    logits_from = num_rows if segment.tree_start is None else segment.tree_start
    return SegmentRows(
        segment.token_ids, segment.parents, segment.cached_rows, segment.slots, logits_from
    )


def _is_greedy(segment: Segment) -> bool:
    return segment.sampling.is_greedy
