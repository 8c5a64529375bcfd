"""What is written loads again, as the head that was trained."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.checkpoints import TargetFiles, load_head
from outrider.modeling.heads.head_config import HeadKind
from outrider.modeling.heads.heads import build_head
from outrider.training.initial_head import head_config, initial_head
from outrider.training.write_result import HeadNaming, finished_head, parameter_count, write_result

TARGET_IDS = torch.tensor([1, 4, 7, 49])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=5,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return TargetFiles(folder)


def guesses(config, tensors, features):
    head = build_head(config, tensors, torch.float32, "cpu")
    tokens, positions = torch.arange(5) + 3, torch.arange(5)
    output = head(tokens, head.fuse(features), positions, causal_attend)
    return head.logits(output.logit_input).detach(), head.target_ids


@pytest.mark.parametrize(
    ("kind", "name"), [("eagle3", "safeailab"), ("eagle3", "speculators"), ("eagle1", "eagle1")]
)
def test_a_head_comes_back_as_it_was_trained(files, tmp_path, kind, name):
    config = head_config(files, HeadKind(kind), (1, 2, 4), 4)
    initial = initial_head(config, files, TARGET_IDS, from_target=False, seed=0)
    frozen = {"embed_tokens.weight", "lm_head.weight" if kind == "eagle1" else ""}
    weights = {n: t for n, t in initial.tensors.items() if n not in frozen and n != "target_ids"}
    naming = HeadNaming(name, torch.float32, "Coach-1B", 2048)
    head = finished_head(config, weights, TARGET_IDS, naming)
    write_result(tmp_path, head, "the card", "<svg/>")
    assert (tmp_path / "README.md").read_text() == "the card"
    assert (tmp_path / "curves.svg").read_text() == "<svg/>"
    loaded = load_head(tmp_path, files)
    assert loaded.config.kind == kind
    assert parameter_count(head) == sum(tensor.numel() for tensor in weights.values())
    features = torch.randn(5, config.feature_size)
    expected, _ = guesses(config, initial.tensors, features)
    logits, target_ids = guesses(loaded.config, loaded.tensors, features)
    if kind == "eagle1":
        # Trained against four tokens, at work against all of the target's.
        assert logits.shape[-1] == 50
        logits = logits[:, TARGET_IDS]
    else:
        assert torch.equal(target_ids, TARGET_IDS)
    torch.testing.assert_close(logits, expected)


def test_weights_are_rounded_to_the_dtype_asked_for(files):
    config = head_config(files, HeadKind.EAGLE3, (1, 2, 4), 4)
    initial = initial_head(config, files, TARGET_IDS, from_target=True, seed=0)
    naming = HeadNaming("safeailab", torch.bfloat16, "Coach-1B", None)
    head = finished_head(config, {"fc.weight": initial.tensors["fc.weight"]}, TARGET_IDS, naming)
    assert head.tensors["fc.weight"].dtype is torch.bfloat16
    assert head.tensors["target_ids"].dtype is torch.int64
    assert replace(head.config) == config
