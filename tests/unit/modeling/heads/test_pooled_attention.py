"""Draft KV in a pool equals recomputation: chunks, tree levels, verdicts, sessions side by side."""

from functools import partial

import pytest
import torch
from torch import Tensor

from outrider.modeling.draft_segments import DraftSegment
from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.draft_head import DraftHead, HeadOutput
from outrider.modeling.heads.pooled_attention import PooledAttention, draft_layers
from outrider.modeling.kv_pool import KvPool
from tests.unit.modeling.heads.tiny_heads import (
    eagle1_config,
    eagle3_config,
    random_rows,
    tiny_head,
)

assert_close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)
TREE = [(11, -1), (12, -1), (13, 0), (14, 0), (15, 1), (16, 2), (17, 4), (18, 2)]  # token, parent
LEVELS = [range(0, 2), range(2, 5), range(5, 8)]
CONFIGS = {
    "eagle3": eagle3_config(),
    "eagle3-two-layers": eagle3_config(num_layers=2, norm_output=True),
    "eagle1": eagle1_config(),
}


@pytest.fixture(params=CONFIGS)
def head(request) -> DraftHead:
    return tiny_head(CONFIGS[request.param])


def make_pool(head: DraftHead, slot_count: int = 64) -> KvPool:
    return KvPool(draft_layers(head.config, torch.float32, "cpu"), slot_count)


def run(
    head: DraftHead, pool: KvPool, tokens: list[int], hidden: Tensor, positions: list[int], *shares
) -> HeadOutput:
    attend = PooledAttention(pool, shares)
    return head(torch.tensor(tokens), hidden, torch.tensor(positions), attend)


def recompute(head: DraftHead, tokens: list[int], features: Tensor, path: list[int]) -> HeadOutput:
    """The last row behind true rows and a path of guesses, everything computed anew.

    A guessed row is fed the feedback of the row above it.
    """
    hidden = head.fuse(features)
    for length in range(len(path) + 1):
        count = len(tokens) + length
        ids = torch.tensor([*tokens, *path[:length]])
        output = head(ids, hidden, torch.arange(count), causal_attend)
        hidden = torch.cat([hidden, output.feedback[-1:]])
    return HeadOutput(output.logit_input[-1], output.feedback[-1])


def path_of(node: int) -> list[int]:
    path = []
    while node >= 0:
        token, parent = TREE[node]
        path.append(token)
        node = parent
    return path[::-1]


def ancestors(level: range) -> Tensor:
    """Who sees whom among the node rows so far, bool `[len(level), level.stop]`."""
    visible = torch.zeros(len(level), level.stop, dtype=torch.bool)
    for row, start in enumerate(level):
        node = start
        while node >= 0:
            visible[row, node] = True
            node = TREE[node][1]
    return visible


def assert_same(output: HeadOutput, row: int, expected: HeadOutput) -> None:
    assert_close(output.logit_input[row], expected.logit_input)
    assert_close(output.feedback[row], expected.feedback)


def grow_and_check(head, pool, where, tokens, features, root: Tensor) -> list[Tensor]:
    """Runs TREE level by level behind the true rows; the feedback of each node."""
    count = len(tokens)
    feedback: list[Tensor] = []
    for level in LEVELS:
        hidden = torch.stack([root if TREE[n][1] < 0 else feedback[TREE[n][1]] for n in level])
        depth = len(path_of(level.start))
        share = DraftSegment(len(level), where[: count + level.stop], ancestors(level))
        positions = [count - 1 + depth] * len(level)
        output = run(head, pool, [TREE[n][0] for n in level], hidden, positions, share)
        for row, node in enumerate(level):
            assert_same(output, row, recompute(head, tokens, features, path_of(node)))
        feedback += list(output.feedback)
    return feedback


@pytest.mark.parametrize("is_scattered", [False, True])
@torch.inference_mode()
def test_tree_levels_equal_each_root_path_alone(head, is_scattered):
    tokens, features = random_rows(head.config, 6)
    where = [2 * slot + 1 for slot in range(14)] if is_scattered else range(20, 34)
    pool = make_pool(head)
    for rows in (slice(0, 4), slice(4, 6)):  # true rows in two chunks
        positions = list(range(6))[rows]
        share = DraftSegment(len(positions), where[: rows.stop])
        output = run(head, pool, tokens[rows], head.fuse(features[rows]), positions, share)
    assert_same(output, -1, recompute(head, tokens, features, []))
    grow_and_check(head, pool, where, tokens, features, output.feedback[-1])


@torch.inference_mode()
def test_after_a_verdict_true_rows_replace_the_guesses(head):
    """The accepted path 11, 13, 16 gets true features where guesses lay before."""
    tokens, features = random_rows(head.config, 9)
    tokens[6:] = [11, 13, 16]
    where, pool = range(20), make_pool(head)
    share = DraftSegment(6, where[:6])
    output = run(head, pool, tokens[:6], head.fuse(features[:6]), [*range(6)], share)
    grow_and_check(head, pool, where, tokens[:6], features[:6], output.feedback[-1])
    share = DraftSegment(3, where[:9])
    output = run(head, pool, tokens[6:], head.fuse(features[6:]), [6, 7, 8], share)
    assert_same(output, -1, recompute(head, tokens, features, []))
    grow_and_check(head, pool, where, tokens, features, output.feedback[-1])


@torch.inference_mode()
def test_sessions_in_one_pass_do_not_see_one_another(head):
    """B39: three sessions of different lengths, one with a chain, one with a level, one alone."""
    pool = make_pool(head)
    places = [range(0, 20), range(20, 40), range(40, 60)]
    lengths, feedback = (5, 3, 4), []
    rows = [random_rows(head.config, length + 2, seed) for seed, length in enumerate(lengths)]
    for (tokens, features), length, where in zip(rows, lengths, places, strict=True):
        share = DraftSegment(length, where[:length])
        output = run(
            head, pool, tokens[:length], head.fuse(features[:length]), [*range(length)], share
        )
        feedback.append(output.feedback[-1])
    level = LEVELS[0]
    ids = [*rows[0][0][5:7], *(TREE[n][0] for n in level), rows[2][0][4]]
    hidden = torch.cat(
        [
            head.fuse(rows[0][1][5:7]),
            feedback[1].expand(2, -1),
            head.fuse(rows[2][1][4:5]),
        ]
    )
    shares = (
        DraftSegment(2, places[0][:7]),
        DraftSegment(2, places[1][:5], ancestors(level)),
        DraftSegment(1, places[2][:5]),
    )
    output = run(head, pool, ids, hidden, [5, 6, 3, 3, 4], *shares)
    assert_same(output, 1, recompute(head, rows[0][0][:7], rows[0][1][:7], []))
    for row, node in zip((2, 3), level, strict=True):
        expected = recompute(head, rows[1][0][:3], rows[1][1][:3], path_of(node))
        assert_same(output, row, expected)
    assert_same(output, 4, recompute(head, rows[2][0][:5], rows[2][1][:5], []))
