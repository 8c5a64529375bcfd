"""Sampled text follows the target's exact probabilities, and the test notices when it does not.

A model of four tokens whose probabilities are known; 2,500 seeds; the joint distribution of three
tokens, drawn through trees by the real acceptance and the real token choice. Each planted bug is
one that has been reported in this field (docs of the tests name them).
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from outrider.modeling.token_choice import filtered_scores, sampled_token
from outrider.protocol.decoding import Sampling
from outrider.protocol.token_tree import TokenTree
from verify_service.acceptance import walk

VOCAB, LENGTH, SEEDS = 4, 3, 2500
LOGITS = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(4)) * 1.2
PROMPT = (2,)
SAMPLING = Sampling(temperature=0.8, top_p=0.97)

Choose = Callable[[torch.Tensor, int, int], int]
Walk = Callable[[TokenTree, Callable[[int], int]], tuple[list[int], int]]


def choose(logits: torch.Tensor, seed: int, position: int) -> int:
    sampling = Sampling(SAMPLING.temperature, SAMPLING.top_p, seed=seed)
    return sampled_token(logits, sampling, position)


def random_tree(root: int, rng: random.Random) -> TokenTree:
    token_ids, parents = [root], [-1]
    for _ in range(rng.randrange(7)):
        parent, token = rng.randrange(len(token_ids)), rng.randrange(VOCAB)
        if (parent, token) not in zip(parents, token_ids, strict=True):
            token_ids.append(token)
            parents.append(parent)
    return TokenTree(tuple(token_ids), tuple(parents))


def decode(seed: int, choose: Choose, walk_tree: Walk) -> tuple[int, ...]:
    rng, text = random.Random(seed), list(PROMPT)
    while len(text) < len(PROMPT) + LENGTH:
        tree = random_tree(text[-1], rng)
        path, bonus = walk_tree(tree, token_behind(tree, seed, len(text), choose))
        text += [tree.token_ids[node] for node in path] + [bonus]
    return tuple(text[len(PROMPT) : len(PROMPT) + LENGTH])


def token_behind(tree: TokenTree, seed: int, position: int, choose: Choose) -> Callable[[int], int]:
    depths = tree.depths()
    return lambda node: choose(LOGITS[tree.token_ids[node]], seed, position + depths[node])


def exact_probs() -> dict[tuple[int, ...], float]:
    def after(token: int) -> np.ndarray:
        scores, token_ids = filtered_scores(LOGITS[token], SAMPLING)
        probs = np.zeros(VOCAB)
        probs[token_ids.numpy()] = scores.softmax(0).numpy()
        return probs

    rows = [after(token) for token in range(VOCAB)]
    return {
        text: float(np.prod([rows[b][t] for b, t in zip((*PROMPT, *text), text, strict=False)]))
        for text in itertools.product(range(VOCAB), repeat=LENGTH)
    }


def p_value(choose: Choose = choose, walk_tree: Walk = walk) -> float:
    counts = Counter(decode(seed, choose, walk_tree) for seed in range(SEEDS))
    expected = {text: prob * SEEDS for text, prob in exact_probs().items()}
    if any(expected[text] == 0.0 for text in counts):
        return 0.0  # a text that the filters exclude
    # Cells that expect fewer than five are pooled, as the test's theory asks.
    small = [text for text in expected if expected[text] < 5]
    large = [text for text in expected if expected[text] >= 5]
    observed = [counts[text] for text in large] + [sum(counts[text] for text in small)]
    wanted = [expected[text] for text in large] + [sum(expected[text] for text in small)]
    if wanted[-1] == 0.0:
        observed, wanted = observed[:-1], wanted[:-1]
    return float(chisquare(observed, wanted).pvalue)


def test_the_joint_distribution_is_exact():
    """B14. The seeds are fixed, so this passes always or never; by chance it fails once in 10^3."""
    assert p_value() > 1e-3


def accept_any_likely_child(tree, token_at):
    """B15: a drafted child is accepted where the target finds it likely, without being drawn."""
    node, children = 0, tree.children()
    path: list[int] = []
    while True:
        probs = LOGITS[tree.token_ids[node]].softmax(0)
        likely = [child for token, child in children[node].items() if probs[token] > 0.4]
        if not likely:
            return path, token_at(node)
        node = likely[0]
        path.append(node)


def take_the_deepest_match(tree, token_at):
    """B15: coins are drawn at all nodes and the longest surviving path anywhere is taken."""
    best: list[int] = []
    survives = {0}
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        prob = LOGITS[tree.token_ids[parent]].softmax(0)[tree.token_ids[node]]
        if parent in survives and (token_at(node) * 7 + node) % 10 < 10 * prob:
            survives.add(node)
            best = max(best, tree.path(node)[1:], key=len)
    return best, token_at(best[-1] if best else 0)


def forget_the_position(logits, seed, position):
    """B24: noise that is drawn by seed alone repeats at each position."""
    return choose(logits, seed, 0)


def ignore_the_temperature(logits, seed, position):
    """B17: the draws use another temperature than the request's."""
    return sampled_token(logits, Sampling(1.0, SAMPLING.top_p, seed=seed), position)


def keep_the_tail(logits, seed, position):
    """B16: top_p keeps the unlikely end of the distribution."""
    scores = logits.double() / SAMPLING.temperature
    order = scores.argsort()
    mass = scores.softmax(0)[order].cumsum(0)
    dropped = order[mass > SAMPLING.top_p]
    tail = logits.clone()
    tail[dropped] = -torch.inf
    return sampled_token(tail, Sampling(SAMPLING.temperature, seed=seed), position)


def excluded_bonus(tree, token_at):
    """The bonus is drawn again wherever it equals a child that an impatient walk gave up on."""
    path, bonus = walk(tree, token_at)
    return (path[:-1], tree.token_ids[path[-1]] ^ 1) if len(path) > 1 else (path, bonus)


@pytest.mark.parametrize("bug", [accept_any_likely_child, take_the_deepest_match, excluded_bonus])
def test_a_planted_bug_in_the_walk_is_noticed(bug):
    assert p_value(walk_tree=bug) < 1e-6


@pytest.mark.parametrize("bug", [forget_the_position, ignore_the_temperature, keep_the_tail])
def test_a_planted_bug_in_the_choice_is_noticed(bug):
    assert p_value(choose=bug) < 1e-6
