"""Features are the target's own hidden states, taken in the pass that makes the logits."""

from functools import partial

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    CLIPVisionConfig,
    GPT2Config,
    LlavaConfig,
    LlavaForConditionalGeneration,
)

from outrider.modeling.feature_capture import FeatureCapture
from outrider.modeling.heads.head_config import FINAL_NORM
from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from tests.unit.modeling.tiny_models import VOCAB, configs, plain_model, target_model

SIZE, LAYERS = 32, 2
BOUNDARIES = (0, 1, LAYERS, FINAL_NORM)
assert_close = partial(torch.testing.assert_close, atol=2e-4, rtol=2e-4)
TOKENS = torch.randint(VOCAB, (13,), generator=torch.Generator().manual_seed(2)).tolist()


@pytest.fixture(scope="module", params=list(configs()))
def pair(request):
    return plain_model(request.param), target_model(request.param)


@torch.inference_mode()
def expected_features(model, tokens: list[int]) -> Tensor:
    """`[num_rows, boundaries, SIZE]`; what stands before the final norm is caught at the norm."""
    before_norm = []
    hook = model.get_decoder().norm.register_forward_pre_hook(
        lambda _, args: before_norm.append(args[0])
    )
    output = model(torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
    hook.remove()
    states = output.hidden_states
    assert len(states) == LAYERS + 1
    return torch.stack([states[0], states[1], before_norm[0], states[LAYERS]], dim=2)[0]


def chain(tokens: list[int], logits_from: int, slot: int = 0, cached: int = 0):
    """Rows of a prompt from `cached` on."""
    new = len(tokens) - cached
    slots = range(slot, slot + len(tokens))
    return SegmentRows(tokens[cached:], range(-1, new - 1), cached, slots, logits_from)


@pytest.mark.parametrize("logits_from", [0, 12, 13], ids=["all", "last", "none"])
def test_features_equal_the_models_hidden_states(pair, logits_from):
    plain, target = pair
    batch = build_ragged_batch([chain(TOKENS, logits_from)])
    output = target.forward_with_features(batch, BOUNDARIES)
    assert output.features.shape == (13, len(BOUNDARIES) * SIZE)
    expected = expected_features(plain, TOKENS)
    assert_close(output.features, expected.flatten(1))
    assert torch.equal(output.logits, target.forward(batch))
    assert output.logits.shape == (13 - logits_from, VOCAB)


def test_the_last_boundary_and_the_final_norm_differ(pair):
    _, target = pair
    batch = build_ragged_batch([chain(TOKENS, 13)])
    last, final = target.forward_with_features(batch, (LAYERS, FINAL_NORM)).features.split(SIZE, 1)
    assert not torch.allclose(last, final, atol=0.1)


def test_rows_are_picked_across_sessions(pair):
    """Accepted rows of two sessions, of which one continues behind cached rows, with a tree."""
    plain, target = pair
    target.forward(build_ragged_batch([chain(TOKENS[:8], 8, slot=100)]))
    tree = SegmentRows([5, 6, 7], [-1, 0, 0], 8, range(100, 111), 0)
    batch = build_ragged_batch([chain(TOKENS[:4], 3), tree])
    rows = torch.tensor([2, 4, 6])  # the third of the prompt, the root, the second child
    output = target.forward_with_features(batch, (1, FINAL_NORM), rows)
    prompt = expected_features(plain, TOKENS[:4])[2]
    path = expected_features(plain, [*TOKENS[:8], 5, 7])[8:]
    expected = torch.cat([prompt[None], path])[:, [1, 3]].flatten(1)
    assert_close(output.features, expected)
    assert output.logits.shape == (4, VOCAB)


def test_order_and_repetition_are_the_callers(pair):
    _, target = pair
    batch = build_ragged_batch([chain(TOKENS, 13)])
    one, other = (target.forward_with_features(batch, (layer,)).features for layer in (1, 0))
    both = target.forward_with_features(batch, (1, 0, 1)).features
    assert torch.equal(both, torch.cat([one, other, one], dim=1))


def test_no_hook_stays_behind_and_none_is_set_where_nothing_is_asked(pair, monkeypatch):
    _, target = pair
    batch = build_ragged_batch([chain(TOKENS, 0)])
    target.forward_with_features(batch, BOUNDARIES)
    modules = list(target._model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in modules)

    def never(*_, **__):
        raise AssertionError("a hook was set")

    monkeypatch.setattr(torch.nn.Module, "register_forward_hook", never)
    monkeypatch.setattr(torch.nn.Module, "register_forward_pre_hook", never)
    target.forward(batch)
    assert target.forward_with_features(batch, ()).features.shape == (13, 0)


def test_hooks_go_when_a_pass_fails():
    target = target_model("llama")
    batch = build_ragged_batch([chain([VOCAB + 5], 0)])
    with pytest.raises(IndexError):
        target.forward_with_features(batch, BOUNDARIES)
    modules = list(target._model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in modules)


@pytest.mark.parametrize("wrong", [-2, LAYERS + 1])
def test_a_wrong_boundary_names_the_allowed_range(wrong):
    target = target_model("llama")
    batch = build_ragged_batch([chain(TOKENS, 0)])
    with pytest.raises(ValueError, match=rf"feature layer {wrong} is not among 0 to 2 .* or -1"):
        target.forward_with_features(batch, (0, wrong))


def test_facts_say_what_a_head_must_fit(pair):
    _, target = pair
    assert (target.facts.hidden_size, target.facts.layer_count) == (SIZE, LAYERS)


@torch.inference_mode()
def test_layers_are_found_whatever_they_are_called():
    config = GPT2Config(vocab_size=VOCAB, n_embd=SIZE, n_layer=3, n_head=4, n_positions=64)
    model = AutoModelForCausalLM.from_config(config).eval()
    ids = torch.tensor([TOKENS])
    states = model(ids, use_cache=False, output_hidden_states=True).hidden_states
    with FeatureCapture(model).capture((0, 2, FINAL_NORM), torch.arange(13)) as features:
        model(ids, use_cache=False)
    expected = torch.cat([states[0], states[2], states[3]], dim=2)[0]
    assert torch.equal(features, expected)


@torch.inference_mode()
def test_a_multimodal_wrapper_has_a_text_decoder_inside():
    """Its picture tower has as many layers as its decoder."""
    vision = CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=LAYERS, num_attention_heads=2,
        image_size=8, patch_size=4, projection_dim=16,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=vision, text_config=configs()["llama"], image_token_index=VOCAB - 1
    )
    model = LlavaForConditionalGeneration(config).eval()
    ids = torch.tensor([[token % (VOCAB - 1) for token in TOKENS]])
    states = model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
    with FeatureCapture(model).capture((1, FINAL_NORM), torch.arange(13)) as features:
        model(input_ids=ids, use_cache=False)
    assert torch.equal(features, torch.cat([states[1], states[LAYERS]], dim=2)[0])


def test_a_model_without_a_list_of_layers_is_refused_in_words():
    model = plain_model("llama")
    del model.model.layers[1]
    with pytest.raises(ValueError, match="LlamaModel has 0 lists of 2 modules"):
        FeatureCapture(model)


@torch.inference_mode()
def test_hidden_states_of_another_form_are_refused_in_words():
    model = plain_model("llama")
    with (
        pytest.raises(ValueError, match=r"hidden states of this model are \[2, 1, 4, 32\]"),
        FeatureCapture(model).capture((1,), torch.arange(4)),
    ):
        model.model.layers[1](torch.zeros(2, 1, 4, SIZE))
