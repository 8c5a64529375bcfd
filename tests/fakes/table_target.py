"""A target without torch: a table of logits by prefix, over a pool that remembers token ids.

Each "KV row" is the token that was written there, so the prefix a node sees is read back through
the slots: a wrong slot, a wrong parent or a wrong compaction gives another prefix and so other
tokens. That makes `==` on the output a test of the bookkeeping. The features of a row tell its
token, its position, its layer and its prefix, so that those can be compared too.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from outrider.protocol.decoding import TopLogProbs
from outrider.protocol.features import TensorType
from outrider.protocol.sampling_noise import gumbel
from verify_service.step import FeatureBlock, NonFiniteLogits, Segment, TargetTokens

Prefix = tuple[int, ...]
LogitsOf = Callable[[Prefix], Sequence[float]]

EMPTY = -1
HIDDEN_SIZE = 4  # see `table_features`
LAYER_COUNT = 6


class TableTarget:
    """The `Target` of an engine.

    Args:
        slot_count: Rows of the pool.
        logits_of: Logits of the next token for a prefix.
    """

    def __init__(self, slot_count: int, logits_of: LogitsOf) -> None:
        self.rows = [EMPTY] * slot_count
        self.steps: list[int] = []
        self._logits_of = logits_of

    def run(self, segments: Sequence[Segment]) -> "TableAnswers":
        self.steps.append(sum(len(segment.token_ids) for segment in segments))
        for segment in segments:
            for row, token_id in enumerate(segment.token_ids):
                self.rows[segment.slots[segment.cached_rows + row]] = token_id
        prefixes = [self._prefixes(segment) for segment in segments]
        tokens = [
            None if segment.tree_start is None else _Tokens(its_prefixes, segment, self)
            for segment, its_prefixes in zip(segments, prefixes, strict=True)
        ]
        return TableAnswers(tokens, segments, prefixes)

    def move_rows(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        taken = [self.rows[source] for source in sources]
        for destination, token_id in zip(destinations, taken, strict=True):
            self.rows[destination] = token_id

    def logits(self, prefix: Prefix) -> np.ndarray:
        assert EMPTY not in prefix, "a row was read that nobody wrote"
        return np.asarray(self._logits_of(prefix), dtype=np.float64)

    def _prefixes(self, segment: Segment) -> list[Prefix]:
        cached = tuple(self.rows[slot] for slot in segment.slots[: segment.cached_rows])
        prefixes: list[Prefix] = []
        for row, parent in enumerate(segment.parents):
            before = cached if parent < 0 else prefixes[parent]
            prefixes.append((*before, segment.token_ids[row]))
        return prefixes


@dataclass(frozen=True, slots=True)
class TableAnswers:
    """The `StepAnswers` of a table target."""

    tokens: Sequence[TargetTokens | None]
    segments: Sequence[Segment]
    prefixes: Sequence[Sequence[Prefix]]

    def features_of(self, rows: Sequence[Sequence[int]]) -> list[FeatureBlock | None]:
        return [
            self._block(place, its_rows) if its_rows else None
            for place, its_rows in enumerate(rows)
        ]

    def _block(self, place: int, rows: Sequence[int]) -> FeatureBlock:
        layers = self.segments[place].feature_layers
        assert layers, "features that the segment did not ask for"
        values = [table_features(self._prefix(place, row), layers) for row in rows]
        data = np.asarray(values, dtype="<f4").tobytes()
        return FeatureBlock(data, len(layers) * HIDDEN_SIZE, TensorType.FLOAT32)

    def _prefix(self, place: int, row: int) -> Prefix:
        """Rows that the segment did not run itself are negative."""
        if row >= 0:
            return self.prefixes[place][row]
        return self.prefixes[place][0][: self.segments[place].cached_rows + row + 1]


def table_features(prefix: Prefix, layers: Sequence[int]) -> list[float]:
    """Features of the last row of a prefix."""
    digest = hash(prefix) % 9973
    return [x for layer in layers for x in (prefix[-1], len(prefix) - 1, layer, digest)]


class _Tokens:
    def __init__(self, prefixes: list[Prefix], segment: Segment, target: TableTarget) -> None:
        assert segment.tree_start is not None
        self._prefixes = prefixes[segment.tree_start :]
        self._segment = segment
        self._target = target

    def token_at(self, node: int) -> int:
        return choose(
            self._target.logits(self._prefixes[node]), self._prefixes[node], self._segment
        )

    def likely_at(self, node: int, token_ids: Collection[int], threshold: float) -> int | None:
        logits = self._target.logits(self._prefixes[node])
        best = min(token_ids, key=lambda one: (-logits[one], one))
        return best if math.exp(logits[best] - logits.max()) >= threshold else None

    def log_prob_at(self, node: int, token_id: int) -> float:
        logits = self._target.logits(self._prefixes[node])
        return float(logits[token_id] - math.log(np.exp(logits).sum()))

    def top_at(self, node: int, count: int) -> TopLogProbs:
        logits = self._target.logits(self._prefixes[node])
        best = np.argsort(-logits, kind="stable")[:count].tolist()
        return TopLogProbs(tuple(best), tuple(self.log_prob_at(node, one) for one in best))


def choose(logits: np.ndarray, prefix: Prefix, segment: Segment) -> int:
    if not np.isfinite(logits).all():
        raise NonFiniteLogits("the table gave NaN")
    sampling = segment.sampling
    if sampling.is_greedy:
        return int(logits.argmax())
    noise = gumbel(sampling.seed, len(prefix), np.arange(len(logits)))
    return int((logits / sampling.temperature + noise).argmax())


def markov_logits(vocab_size: int, seed: int, sharpness: float = 3.0) -> LogitsOf:
    """Logits that depend on the last two tokens: text that repeats itself, so n-grams help."""
    table = np.random.default_rng(seed).normal(size=(vocab_size, vocab_size, vocab_size))

    def logits_of(prefix: Prefix) -> Sequence[float]:
        before = prefix[-2] if len(prefix) > 1 else 0
        return list(sharpness * table[before, prefix[-1]])

    return logits_of


def hashed_logits(vocab_size: int, seed: int) -> LogitsOf:
    """Logits that depend on the whole prefix: one wrong token anywhere changes all that follow."""

    def logits_of(prefix: Prefix) -> Sequence[float]:
        state = np.random.default_rng([seed, *prefix])
        return list(state.normal(size=vocab_size))

    return logits_of
