"""A head begins as its target's own last layer."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.checkpoints import BadCheckpoint, TargetFiles
from outrider.modeling.heads.head_config import FINAL_NORM, HeadKind
from outrider.modeling.heads.heads import build_head
from outrider.training.initial_head import default_feature_layers, head_config, initial_head

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TARGET_IDS = torch.tensor([1, 4, 7, 49])


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    model.save_pretrained(folder)
    return model, TargetFiles(folder)


def test_an_eagle3_head_is_the_last_layer_over_the_highest_feature(llama):
    model, files = llama
    config = head_config(files, HeadKind.EAGLE3, (1, 2, 4), 4)
    initial = initial_head(config, files, TARGET_IDS, from_target=True, seed=0)
    assert initial.drawn == ()
    last, tensors = model.model.layers[-1], initial.tensors
    for part in ("self_attn.o_proj", "mlp.down_proj", "post_attention_layernorm"):
        expected = last.get_submodule(part).weight
        assert torch.equal(tensors[f"layers.0.{part}.weight"], expected)
    assert torch.equal(tensors["layers.0.hidden_norm.weight"], last.input_layernorm.weight)
    assert torch.equal(tensors["norm.weight"], model.model.norm.weight)
    assert torch.equal(tensors["lm_head.weight"], model.lm_head.weight[TARGET_IDS])
    assert torch.equal(tensors["embed_tokens.weight"], model.model.embed_tokens.weight)
    joined = tensors["layers.0.self_attn.k_proj.weight"]
    assert torch.equal(joined[:, 16:], last.self_attn.k_proj.weight)
    head = build_head(config, tensors, torch.float32, "cpu")
    features = torch.randn(3, 48)
    torch.testing.assert_close(head.fuse(features), features[:, 32:])


def test_an_eagle1_head_reads_what_the_language_model_head_reads(llama):
    model, files = llama
    config = head_config(files, HeadKind.EAGLE1, (), 4)
    initial = initial_head(config, files, TARGET_IDS, from_target=True, seed=0)
    assert config.feature_layers == (FINAL_NORM,)
    assert initial.drawn == ()
    last, final = model.model.layers[-1], model.model.norm.weight
    features = torch.randn(200, 16) * final  # as the final norm leaves them
    expected = last.self_attn.q_proj(last.input_layernorm(features))
    found = features @ initial.tensors["layers.0.self_attn.q_proj.weight"].T
    similar = torch.cosine_similarity(found.flatten(), expected.flatten(), dim=0)
    assert similar > 0.9
    assert 0.5 < found.norm() / expected.norm() < 2.0


def test_an_eagle1_head_begins_by_repeating_the_feature(llama):
    """The target's layer over features behind its final norm would blow them up."""
    _, files = llama
    config = head_config(files, HeadKind.EAGLE1, (), 4)
    tensors = initial_head(config, files, TARGET_IDS, from_target=True, seed=0).tensors
    head = build_head(config, tensors, torch.float32, "cpu")
    features = torch.randn(3, 16)
    out = head(torch.tensor([5, 6, 7]), features, torch.arange(3), causal_attend)
    torch.testing.assert_close(out.feedback, features)


def test_at_random_only_the_vocabulary_is_the_targets(llama):
    model, files = llama
    config = head_config(files, HeadKind.EAGLE3, (1, 2, 4), 4)
    initial = initial_head(config, files, TARGET_IDS, from_target=False, seed=0)
    assert "fc.weight" in initial.drawn
    assert torch.equal(initial.tensors["lm_head.weight"], model.lm_head.weight[TARGET_IDS])
    again = initial_head(config, files, TARGET_IDS, from_target=False, seed=0)
    assert torch.equal(initial.tensors["fc.weight"], again.tensors["fc.weight"])


def test_biases_of_the_target_are_taken_along(tmp_path):
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**SIZES))
    torch.nn.init.normal_(model.model.layers[-1].self_attn.k_proj.bias)
    model.save_pretrained(tmp_path)
    files = TargetFiles(tmp_path)
    config = head_config(files, HeadKind.EAGLE3, (1, 2, 4), 4)
    assert config.attention_bias
    initial = initial_head(config, files, TARGET_IDS, from_target=True, seed=0)
    expected = model.model.layers[-1].self_attn.k_proj.bias
    assert torch.equal(initial.tensors["layers.0.self_attn.k_proj.bias"], expected)


def test_layers_that_are_read():
    assert default_feature_layers(30) == (2, 15, 27)
    assert default_feature_layers(4) == (1, 2, 4)
    with pytest.raises(BadCheckpoint, match="--feature-layers"):
        default_feature_layers(2)
