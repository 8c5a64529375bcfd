"""One pass over a ragged batch equals each sequence alone, for every path of every tree."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from tests.unit.modeling.tiny_models import VOCAB, configs, plain_model, target_model

FAMILIES = list(configs())
TOLERANCE = 2e-4


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request):
    return plain_model(request.param), target_model(request.param)


@torch.inference_mode()
def alone(model, token_ids: list[int]) -> torch.Tensor:
    """Logits behind the last token."""
    logits: torch.Tensor = model(torch.tensor([token_ids]), use_cache=False).logits
    return logits[0, -1]


def path_tokens(token_ids, parents, row) -> list[int]:
    path = []
    while row >= 0:
        path.append(token_ids[row])
        row = parents[row]
    return path[::-1]


def draw_tree(data, max_rows: int) -> tuple[list[int], list[int]]:
    count = data.draw(st.integers(1, max_rows))
    parents = [-1] + [data.draw(st.integers(0, row - 1)) for row in range(1, count)]
    return [data.draw(st.integers(0, VOCAB - 1)) for _ in range(count)], parents


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_tree_attention_equals_each_root_path_alone(pair, data):
    plain, target = pair
    prompt = data.draw(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20))
    token_ids, parents = draw_tree(data, max_rows=10)
    cached = len(prompt)
    scattered = data.draw(st.booleans())
    slots = range(100, 100 + cached + 10)
    where = [2 * slot for slot in slots] if scattered else slots
    prefill = SegmentRows(prompt, range(-1, cached - 1), 0, where[:cached], cached)
    target.forward(build_ragged_batch([prefill]))
    rows = cached + len(token_ids)
    tree = SegmentRows(token_ids, parents, cached, where[:rows], 0)
    logits = target.forward(build_ragged_batch([tree]))
    for row in range(len(token_ids)):
        expected = alone(plain, prompt + path_tokens(token_ids, parents, row))
        torch.testing.assert_close(logits[row], expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_prefill_chunks_and_trees_of_many_sessions_in_one_pass(pair):
    plain, target = pair
    generator = torch.Generator().manual_seed(3)
    prompts = [torch.randint(VOCAB, (n,), generator=generator).tolist() for n in (3, 17, 8)]
    for index, prompt in enumerate(prompts):
        slots = range(64 * index, 64 * index + len(prompt))
        chain = SegmentRows(prompt, range(-1, len(prompt) - 1), 0, slots, len(prompt))
        target.forward(build_ragged_batch([chain]))
    trees = [([5, 6, 7], [-1, 0, 0]), ([9], [-1]), ([1, 2, 3, 4], [-1, 0, 1, 1])]
    shares = [
        SegmentRows(ids, parents, len(p), range(64 * i, 64 * i + len(p) + len(ids)), 0)
        for i, (p, (ids, parents)) in enumerate(zip(prompts, trees, strict=True))
    ]
    late = torch.randint(VOCAB, (9,), generator=generator).tolist()
    # A prompt of its own with a tree hung behind it, in the same pass.
    shares.append(SegmentRows([*late, 11, 12], [*range(-1, 9), 8], 0, range(300, 311), 8))
    logits = iter(target.forward(build_ragged_batch(shares)))
    for prompt, (ids, parents) in zip(prompts, trees, strict=True):
        for row in range(len(ids)):
            expected = alone(plain, prompt + path_tokens(ids, parents, row))
            torch.testing.assert_close(next(logits), expected, atol=TOLERANCE, rtol=TOLERANCE)
    for tail in ([], [11], [12]):
        expected = alone(plain, late + tail)
        torch.testing.assert_close(next(logits), expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_moved_rows_serve_as_if_they_had_been_written_there(pair):
    plain, target = pair
    prompt, ids, parents = [3, 4, 5], [6, 7, 8, 9], [-1, 0, 0, 2]
    chain = SegmentRows(prompt, range(-1, 2), 0, range(3), 3)
    target.forward(build_ragged_batch([chain]))
    target.forward(build_ragged_batch([SegmentRows(ids, parents, 3, range(7), 0)]))
    target.move_rows([3 + 2, 3 + 3], [3 + 1, 3 + 2])  # the path 6, 8, 9
    logits = target.forward(build_ragged_batch([SegmentRows([10], [-1], 6, range(7), 0)]))
    expected = alone(plain, [*prompt, 6, 8, 9, 10])
    torch.testing.assert_close(logits[0], expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_what_the_checkpoint_says(pair):
    _, target = pair
    assert target.facts.vocab_size == VOCAB
    assert target.facts.context_limit == 256
    assert target.facts.eos_token_ids == (0,)
    assert len(target.layers) == 2
    row_bytes = 2 * sum(
        layer.kv_heads * layer.key_dim * layer.dtype.itemsize for layer in target.layers
    )
    assert target.row_bytes == {torch.device("cpu"): row_bytes}


def test_the_fingerprint_knows_the_weights_and_not_the_layout():
    assert target_model("llama").fingerprint == target_model("llama").fingerprint
    assert target_model("llama").fingerprint != target_model("llama", seed=1).fingerprint
