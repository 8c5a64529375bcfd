"""What is captured is what the target says, many conversations at a time."""

import pytest
import torch

from outrider.modeling.heads.head_config import FINAL_NORM
from outrider.training.capture import TargetCapture
from tests.unit.modeling.tiny_models import VOCAB, plain_model, target_model

LAYERS = (0, 1, 2)
TARGET_IDS = torch.arange(3, 43, 2)
CONVERSATIONS = [[5, 9, 33, 2, 17, 8], [1, 60, 4], [7] * 9]
FIRSTS = [3, 2, 2]
# Gemma 2 caps its logits softly, so multiplying its language-model head out is not enough.
FAMILIES = {"llama": True, "qwen2": True, "gemma2-softcap": False}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


def with_low_cap(model):
    """A cap that these small models reach; the others have no such setting."""
    if hasattr(model.config, "final_logit_softcapping"):
        model.config.final_logit_softcapping = 2.0
    return model


def capture_with(family, feature_layers=LAYERS, pass_tokens=12):
    lm_head = plain_model(family).get_output_embeddings().weight.detach()
    target = target_model(family)
    with_low_cap(target._model)
    return TargetCapture(target, feature_layers, TARGET_IDS, lm_head, 5, pass_tokens, longest=9)


def alone(family, token_ids):
    plain = with_low_cap(plain_model(family))
    with torch.inference_mode():
        return plain(torch.tensor([token_ids]), output_hidden_states=True, use_cache=False)


def test_features_and_likely_tokens_are_the_targets_own(family):
    capture = capture_with(family)
    captured = capture(CONVERSATIONS, FIRSTS)
    begin = 0
    for token_ids, first in zip(CONVERSATIONS, FIRSTS, strict=True):
        rows = slice(begin, begin + len(token_ids))
        output = alone(family, token_ids)
        # What `transformers` gives last has the final norm behind it; layer 2 here has not.
        expected = torch.cat(output.hidden_states[:2], dim=-1)[0]
        features = captured.features[rows].float()
        torch.testing.assert_close(features[:, :64], expected, atol=0.02, rtol=0.02)
        probs, ids = output.logits[0, :, TARGET_IDS].softmax(-1).topk(5)
        asked = slice(first - 1, len(token_ids))
        assert torch.equal(captured.likely_ids[rows][asked], ids[asked].int())
        torch.testing.assert_close(
            captured.likely_probs[rows][asked].float(), probs[asked], atol=2e-3, rtol=2e-2
        )
        assert not captured.likely_probs[rows][: first - 1].any()
        begin += len(token_ids)
    assert capture._is_plain is FAMILIES[family]


def test_the_final_norm_can_be_the_feature():
    captured = capture_with("llama", (FINAL_NORM,))(CONVERSATIONS[:1], FIRSTS[:1])
    expected = alone("llama", CONVERSATIONS[0]).hidden_states[-1][0]
    torch.testing.assert_close(captured.features.float(), expected, atol=0.02, rtol=0.02)


def test_passes_do_not_matter():
    small = capture_with("llama", pass_tokens=1)(CONVERSATIONS, FIRSTS)
    large = capture_with("llama", pass_tokens=100)(CONVERSATIONS, FIRSTS)
    torch.testing.assert_close(small.features, large.features, atol=0.02, rtol=0.02)
    assert torch.equal(small.likely_ids, large.likely_ids)


def test_it_can_be_trained_on():
    captured = capture_with("llama")(CONVERSATIONS[:1], FIRSTS[:1])
    weight = torch.ones(captured.features.shape[1], requires_grad=True)
    (captured.features.float() @ weight).sum().backward()
    assert weight.grad is not None
    assert int(TARGET_IDS.max()) < VOCAB
