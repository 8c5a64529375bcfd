"""A worker's methods with a head from files, over a tiny random target."""

import json

import pytest
import torch
from safetensors.torch import save_file

from draft_service.drafters.network_watch import DropReason
from draft_service.methods import make_methods
from draft_service.settings import DraftSettings
from outrider.protocol.decoding import Sampling
from outrider.protocol.features import FeatureLayout, TensorType
from outrider.protocol.messages import ID_BYTES, FeatureRows
from outrider.settings import BadSettings, load_settings
from outrider.telemetry.metrics import DraftMetrics
from tests.unit.draft_service.tiny_head import DRAFT_VOCAB, HIDDEN, VOCAB, tiny_target


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target and an EAGLE-3 head in SafeAILab's layout."""
    target, head = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("head")
    tiny_target().save_pretrained(target)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "rms_norm_eps": 1e-5, "vocab_size": VOCAB,
        "draft_vocab_size": DRAFT_VOCAB, "max_position_embeddings": 64, "hidden_act": "silu",
        "rope_theta": 10_000.0,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]},
    }  # fmt: skip
    (head / "config.json").write_text(json.dumps(config))
    shapes = {
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "midlayer.self_attn.q_proj.weight": (32, 2 * HIDDEN),
        "midlayer.self_attn.k_proj.weight": (16, 2 * HIDDEN),
        "midlayer.self_attn.v_proj.weight": (16, 2 * HIDDEN),
        "midlayer.self_attn.o_proj.weight": (HIDDEN, 32),
        "midlayer.mlp.gate_proj.weight": (48, HIDDEN),
        "midlayer.mlp.up_proj.weight": (48, HIDDEN),
        "midlayer.mlp.down_proj.weight": (HIDDEN, 48),
        "lm_head.weight": (DRAFT_VOCAB, HIDDEN),
    }
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
        tensors[f"midlayer.{name}.weight"] = torch.ones(HIDDEN)
    tensors["norm.weight"] = torch.ones(HIDDEN)
    tensors["d2t"] = torch.full((DRAFT_VOCAB,), 5)
    is_kept = torch.zeros(VOCAB, dtype=torch.bool)
    is_kept[5 : 5 + DRAFT_VOCAB] = True
    tensors["t2d"] = is_kept
    save_file(tensors, head / "model.safetensors")
    return target, head


def settings(folders, *flags: str) -> DraftSettings:
    target, head = folders
    return load_settings(DraftSettings, ["--head", str(head), "--target", str(target), *flags], {})


def test_a_head_brings_its_method_and_the_hybrid_which_is_the_default(folders):
    methods = make_methods(settings(folders, "--device", "cpu"), DraftMetrics())
    assert list(methods.drafters) == ["hybrid", "eagle3", "ngram", "none"]
    assert methods.default == "hybrid"
    assert methods.layout == FeatureLayout((0, 1, 2), HIDDEN)
    hybrid = methods.drafters["hybrid"]
    hybrid.open(b"a" * ID_BYTES, [1, 2, 3], Sampling())
    assert hybrid.features_from(b"a" * ID_BYTES) == 0


def test_a_session_that_loses_its_head_is_counted_and_logged(folders, caplog):
    metrics = DraftMetrics()
    drafter = make_methods(settings(folders, "--device", "cpu"), metrics).drafters["eagle3"]
    drafter.open(b"a" * ID_BYTES, [1, 2, 3], Sampling())
    drafter.take_features(FeatureRows(b"a" * ID_BYTES, 0, 0, 1, 7, TensorType.FLOAT16, bytes(14)))
    reason = DropReason.WRONG_FEATURES
    count = metrics.registry.get_sample_value(
        "outrider_dropped_heads_total", {"reason": reason.value}
    )
    assert count == 1
    assert f"goes on without its head: {reason}" in caplog.text


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--default-method", "eagle1"), "this worker has hybrid, eagle3, ngram, none"),
        (("--target", "no/such/folder"), "--target: target no/such/folder: config.json"),
        (("--head", "no/such/folder"), "--head, --target: head no/such/folder: config.json"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(folders, flags, problem):
    with pytest.raises(BadSettings, match=problem):
        make_methods(settings(folders, "--device", "cpu", *flags), DraftMetrics())
