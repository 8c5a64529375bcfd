"""Drafting with a draft model on tensors: the same trees and rows as the slow way."""

import random
import time

import pytest
import torch

from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.row_extents import RowExtents
from draft_service.tensors.torch_model import TorchDraftModel
from outrider.modeling.target import TargetModel
from outrider.modeling.token_choice import sampled_token
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable
from outrider.protocol.token_tree import TokenTree
from tests.unit.draft_service.test_growth import EagerShape, Path, paths_of
from tests.unit.modeling.tiny_models import VOCAB, configs, plain_model, target_model

FAMILIES = list(configs())
WIDTH, DEPTH, NODES = 3, 8, 20  # deeper than the windows of those that have one
BUDGET = TreeBudget(NODES, DEPTH, WIDTH, CostTable((1, 64), (100_000, 100_001)))


class Desk:
    """Sessions that are drafted with a model, whatever a target would say to it."""

    def __init__(self, model: TargetModel, id_end: int = VOCAB) -> None:
        self.model = model
        self.network = TorchDraftModel(model, 2048, id_end)
        self.drops: list[DropReason] = []
        self.drafter = ModelDrafter(
            self.network,
            RowExtents(self.network.slot_count),
            NetworkOptions(EagerShape(), may_rest=False),
            lambda session_id, reason, text: self.drops.append(reason),
            time.monotonic,
        )
        self.texts: list[list[int]] = []

    @property
    def ids(self) -> list[bytes]:
        return [bytes([place]) * 16 for place in range(len(self.texts))]

    def open(self, text: list[int], sampling: Sampling | None = None) -> None:
        self.texts.append(list(text))
        self.drafter.open(self.ids[-1], text, sampling or Sampling())
        while self.drafter.prepare():
            pass

    def draft(self) -> list[TokenTree]:
        return self.drafter.draft(self.ids, [BUDGET] * len(self.texts))

    def commit(self, place: int, tree: TokenTree, node: int, bonus: int) -> None:
        """Accepts the path down to a node."""
        accepted = tree.path(node)[1:]
        committed = [*(tree.token_ids[one] for one in accepted), bonus]
        self.texts[place] += committed
        self.drafter.commit(self.ids[place], accepted, committed)

    def rows(self, place: int, layer: int, count: int):
        """Keys and values of a session's first rows."""
        session = self.drafter._trees.sessions[self.ids[place]]
        assert session.rows is not None
        assert session.rows.true_rows >= count
        assert self.model._pool is not None
        return self.model._pool.read(layer, slice(session.rows.start, session.rows.start + count))


def random_text(length: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(2, VOCAB) for _ in range(length)]


@torch.inference_mode()
def slow_guesses(model, text: list[int], path: Path) -> list[tuple[int, float]]:
    """What follows on a path, from the whole sequence."""
    logits = model(torch.tensor([[*text, *path]]), use_cache=False).logits[0, -1]
    probs, ids = logits.float().softmax(dim=-1).topk(WIDTH)
    return list(zip(ids.tolist(), probs.tolist(), strict=True))


def reference_paths(model, text: list[int]) -> set[Path]:
    """EAGLE-2, sections 4.1 and 4.2, each guess computed from scratch."""
    frontier: list[tuple[float, Path]] = [(1.0, ())]
    candidates: list[tuple[float, Path]] = []
    for _ in range(DEPTH):
        level = [
            (score * prob, (*path, token))
            for score, path in frontier
            for token, prob in slow_guesses(model, text, path)
        ]
        candidates += level
        frontier = sorted(level, key=lambda one: -one[0])[:WIDTH]
    candidates.sort(key=lambda one: -one[0])
    return {path for _, path in candidates[: NODES - 1]}


@pytest.mark.parametrize("family", FAMILIES)
def test_trees_are_those_of_the_rule_computed_from_scratch(family):
    desk, plain, text = Desk(target_model(family)), plain_model(family), random_text(11)
    desk.open(text)
    (tree,) = desk.draft()
    assert tree.token_ids[0] == text[-1]
    assert paths_of(tree) == reference_paths(plain, text)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_node_is_asked_behind_its_own_path(family):
    """Sliding windows, soft-capped scores and sinks among them."""
    desk, plain, text = Desk(target_model(family)), plain_model(family), random_text(11)
    desk.open(text)
    desk.draft()
    nodes = desk.drafter._trees.sessions[desk.ids[0]].growth.tree
    asked = [place for place, node in enumerate(nodes.nodes) if node.origin.guesses is not None]
    assert len(asked) == 1 + WIDTH * (DEPTH - 1)
    for place in asked:
        guesses = nodes.nodes[place].origin.guesses
        assert guesses is not None
        path = tuple(nodes.nodes[step].token_id for step in nodes.path(place))
        expected = slow_guesses(plain, text, path)
        assert list(guesses.token_ids) == [token for token, _ in expected]
        assert list(guesses.probs) == pytest.approx([prob for _, prob in expected], rel=1e-3)


@pytest.mark.parametrize("family", ["llama", "gemma2-softcap"])
def test_draft_rows_after_verdicts_equal_those_computed_anew(family):
    """B35: guesses are replaced, in all layers, wherever a session's rows have moved."""
    desk, rng = Desk(target_model(family)), random.Random(1)
    for text in (random_text(5), random_text(50)):
        desk.open(text)
    for _ in range(8):
        for place, tree in enumerate(desk.draft()):
            desk.commit(place, tree, rng.randrange(len(tree)), rng.randrange(2, VOCAB))
    desk.draft()
    assert len(desk.texts[1]) > 64, "it has moved"
    for place, text in enumerate(desk.texts):
        fresh = Desk(target_model(family))
        fresh.open(text)
        fresh.draft()
        for layer in range(2):
            kept, anew = desk.rows(place, layer, len(text)), fresh.rows(0, layer, len(text))
            torch.testing.assert_close(kept, anew, rtol=1e-4, atol=1e-5)


def test_a_batch_of_sessions_equals_one_by_one():
    together, texts = Desk(target_model("llama")), [random_text(n, n) for n in (3, 12, 40, 7)]
    for text in texts:
        together.open(text)
    for tree, text in zip(together.draft(), texts, strict=True):
        alone = Desk(target_model("llama"))
        alone.open(text)
        assert alone.draft() == [tree]


def test_a_prompt_run_in_pieces_gives_the_tree_of_one_pass(monkeypatch):
    """B59."""
    text = random_text(200)
    trees = []
    for rows in (37, 1000):
        monkeypatch.setattr("draft_service.drafters.model.PREFILL_ROWS", rows)
        desk = Desk(target_model("llama"))
        desk.open(text)
        trees.append(desk.draft())
    assert trees[0] == trees[1]
    assert len(trees[0][0]) == NODES


@torch.inference_mode()
def test_a_model_that_equals_the_target_knows_every_draw():
    """At its noise, its filters and its positions."""
    plain, desk = plain_model("llama"), Desk(target_model("llama"))
    sampling = Sampling(temperature=1.2, top_p=0.9, seed=7)
    desk.open(random_text(9), sampling)
    for _ in range(5):
        (tree,) = desk.draft()
        node, children, text = 0, tree.children(), list(desk.texts[0])
        while True:
            logits = plain(torch.tensor([text]), use_cache=False).logits[0, -1]
            token = sampled_token(logits, sampling, len(text))
            if not children[node]:
                break
            assert token in children[node], "the guess that noise favours is the draw"
            node = children[node][token]
            text.append(token)
        assert node, "it got somewhere"
        desk.commit(0, tree, node, token)


@pytest.mark.parametrize("poisoned", ["lm_head.weight", "model.layers.0.self_attn.k_proj.weight"])
def test_a_model_of_nan_gives_the_root_alone(poisoned):
    """B61."""
    model = target_model("qwen2")
    with torch.no_grad():
        target = dict(model._model.named_modules())[poisoned.removesuffix(".weight")]
        target.forward = lambda rows: rows.new_full((*rows.shape[:-1], 16), torch.nan)
    desk = Desk(model)
    desk.open(random_text(9))
    (tree,) = desk.draft()
    assert len(tree) == 1
    assert desk.drops == [DropReason.NON_FINITE]


def test_ids_that_the_target_lacks_are_not_guessed():
    desk = Desk(target_model("llama"), id_end=20)
    desk.open(random_text(9))
    (tree,) = desk.draft()
    assert len(tree) == NODES
    assert max(tree.token_ids[1:]) < 20


def test_what_the_drafter_asks_of_it():
    network = Desk(target_model("llama")).network
    assert (network.slot_count, network.vocab_size, network.context_limit) == (2048, VOCAB, 256)
