"""Drafting on tensors: the same trees and rows as the slow way, over recorded streams."""

import random
import time

import pytest
import torch

from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.head import HeadDrafter
from draft_service.drafters.network_trees import PASS_ROWS, NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.row_extents import RowExtents
from draft_service.tensors.torch_head import TorchHead
from outrider.modeling.half_linear import HalfLinear
from outrider.modeling.heads.draft_head import DraftHead
from outrider.modeling.heads.head_config import HeadKind
from outrider.modeling.linear_kernels import halve_linears, pack_linears
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable
from outrider.protocol.token_tree import TokenTree
from tests.unit.draft_service.test_growth import EagerShape, Path, paths_of
from tests.unit.draft_service.tiny_head import (
    VOCAB,
    Recording,
    features_of,
    random_head,
    record,
    slow_guesses,
    tiny_target,
)

WIDTH, DEPTH, NODES = 3, 4, 14
BUDGET = TreeBudget(NODES, DEPTH, WIDTH, CostTable((1, 64), (100_000, 100_001)))
KINDS = list(HeadKind)


class Replay:
    """One recorded stream, driven round by round.

    Args:
        head: Drafts.
        recordings: One per session.
    """

    def __init__(self, head: DraftHead, recordings: list[Recording]) -> None:
        self.network = TorchHead(head, 8192, torch.float32)
        self.recordings = recordings
        self.drops: list[DropReason] = []
        self.drafter = HeadDrafter(
            self.network,
            RowExtents(self.network.slot_count),
            NetworkOptions(EagerShape(), may_rest=False),
            lambda session_id, reason, text: self.drops.append(reason),
            time.monotonic,
        )
        self.ids = [bytes([place]) * 16 for place in range(len(recordings))]
        self.counts = [recording.prompt_length for recording in recordings]
        for session_id, recording in zip(self.ids, recordings, strict=True):
            prompt = recording.token_ids[: recording.prompt_length]
            self.drafter.open(session_id, prompt, Sampling())

    def round(self) -> list[TokenTree]:
        trees = self.drafter.draft(self.ids, [BUDGET] * len(self.ids))
        for place, tree in enumerate(trees):
            self._settle(place, tree)
        return trees

    def _settle(self, place: int, tree: TokenTree) -> None:
        session_id, recording = self.ids[place], self.recordings[place]
        ahead = recording.token_ids[self.counts[place] :]
        children, node, accepted = tree.children(), 0, []
        for token in ahead:
            if token not in children[node]:
                break
            node = children[node][token]
            accepted.append(node)
        committed = ahead[: len(accepted) + 1]
        self.counts[place] += len(committed)
        first = self.drafter.features_from(session_id)
        if first is not None:
            rows = recording.rows(session_id, first, self.counts[place] - 1)
            self.drafter.take_features(rows)
        self.drafter.commit(session_id, accepted, committed)


def reference_paths(head: DraftHead, recording: Recording, true_rows: int) -> set[Path]:
    """EAGLE-2, sections 4.1 and 4.2, each guess computed from scratch."""
    frontier: list[tuple[float, Path]] = [(1.0, ())]
    candidates: list[tuple[float, Path]] = []
    for _ in range(DEPTH):
        level = [
            (score * prob, (*path, token))
            for score, path in frontier
            for token, prob in slow_guesses(head, recording, true_rows, path, WIDTH)
        ]
        candidates += level
        frontier = sorted(level, key=lambda one: -one[0])[:WIDTH]
    candidates.sort(key=lambda one: -one[0])
    return {path for _, path in candidates[: NODES - 1]}


@pytest.mark.parametrize("kind", KINDS)
def test_trees_are_those_of_the_rule_computed_from_scratch(kind):
    head, recording = random_head(kind), record(kind, 9, seed=1)
    replay = Replay(head, [recording])
    replay.round()
    count = replay.counts[0]
    (tree,) = replay.round()
    assert tree.token_ids[0] == recording.token_ids[count - 1]
    assert paths_of(tree) == reference_paths(head, recording, count - 1)


@pytest.mark.parametrize(("kind", "num_layers"), [(KINDS[0], 1), (KINDS[1], 1), (KINDS[1], 2)])
def test_draft_rows_after_verdicts_equal_those_computed_anew(kind, num_layers):
    """B35: what the head fed itself is replaced, in all layers, wherever a session's rows moved.

    Paths of any length are accepted, whatever the target would say: only its features count here.
    """
    head, model, rng = random_head(kind, num_layers=num_layers), tiny_target(), random.Random(1)
    replay = Replay(head, [record(kind, 5, 0), record(kind, 50, 0, seed=1)])
    texts = [list(recording.token_ids) for recording in replay.recordings]
    for _ in range(10):
        trees = replay.drafter.draft(replay.ids, [BUDGET] * 2)
        for session_id, text, tree in zip(replay.ids, texts, trees, strict=True):
            accepted = tree.path(rng.randrange(len(tree)))[1:]
            committed = [*(tree.token_ids[node] for node in accepted), rng.randrange(VOCAB)]
            text += committed
            first = replay.drafter.features_from(session_id)
            assert first is not None
            given = Recording(text, 0, features_of(kind, text, model))
            replay.drafter.take_features(given.rows(session_id, first, len(text) - 1))
            replay.drafter.commit(session_id, accepted, committed)
    assert len(texts[1]) > 64, "it has moved"
    for place, text in enumerate(texts):
        rows = len(text) - 1
        replay.drafter.draft([replay.ids[place]], [BUDGET])
        fresh = Replay(head, [Recording(text, len(text), features_of(kind, text, model))])
        fresh.drafter.take_features(fresh.recordings[0].rows(fresh.ids[0], 0, rows))
        fresh.drafter.draft(fresh.ids, [BUDGET])
        for layer in range(num_layers):
            kept, anew = rows_of(replay, place, layer, rows), rows_of(fresh, 0, layer, rows)
            torch.testing.assert_close(kept, anew, rtol=1e-4, atol=1e-5)


def rows_of(replay: Replay, place: int, layer: int, count: int):
    """Keys and values of a session's first rows."""
    session = replay.drafter._trees.sessions[replay.ids[place]]
    assert session.rows is not None
    assert session.rows.true_rows >= count
    start = session.rows.start
    return replay.network._pool.read(layer, slice(start, start + count))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_sessions_equals_one_by_one(kind):
    head = random_head(kind)
    recordings = [record(kind, length, seed=length) for length in (3, 12, 40, 7)]
    together = Replay(head, recordings)
    together.round()
    trees = together.round()
    for recording, tree in zip(recordings, trees, strict=True):
        alone = Replay(head, [recording])
        alone.round()
        assert alone.round() == [tree]


def test_a_prompt_longer_than_a_pass_gives_the_tree_of_one_pass(monkeypatch):
    """B59."""
    kind = HeadKind.EAGLE3
    head, recording = random_head(kind), record(kind, 2 * PASS_ROWS + 9, 4)
    chunked = Replay(head, [recording])
    chunked.round()
    tree = chunked.round()
    for module in ("head", "network_trees"):
        monkeypatch.setattr(f"draft_service.drafters.{module}.PASS_ROWS", 10_000)
    whole = Replay(head, [recording])
    whole.round()
    assert whole.round() == tree
    assert len(tree[0]) == NODES


@pytest.mark.parametrize("poisoned", ["lm_head.weight", "layers.0.self_attn.k_proj.weight"])
def test_a_head_of_nan_gives_the_root_alone(poisoned):
    """B61."""
    head = random_head(HeadKind.EAGLE3)
    with torch.no_grad():
        head.state_dict()[poisoned][0, 0] = torch.nan  # type: ignore[attr-defined]
    replay = Replay(head, [record(HeadKind.EAGLE3, 9)])
    for _ in range(3):
        (tree,) = replay.round()
        assert len(tree) == 1
    assert replay.drops == [DropReason.NON_FINITE]


@pytest.mark.parametrize("pack", [pack_linears, halve_linears])
def test_packed_layers_draft_the_same(pack):
    recording = record(HeadKind.EAGLE3, 9)
    packed = random_head(HeadKind.EAGLE3)
    assert isinstance(packed, torch.nn.Module)
    assert pack(packed) == 9
    trees = []
    for head in (random_head(HeadKind.EAGLE3), packed):
        replay = Replay(head, [recording])
        replay.round()
        trees.append(replay.round())
    assert trees[0] == trees[1]


def test_half_layers_are_close_to_whole_ones_and_keep_to_their_range():
    linear = torch.nn.Linear(64, 32)
    rows = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        torch.testing.assert_close(HalfLinear(linear)(rows), linear(rows), rtol=1e-2, atol=1e-3)
        linear.weight[0, 0] = 1e9
        assert HalfLinear(linear)(rows).isfinite().all()
