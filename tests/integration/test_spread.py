"""A target whose layers lie on several devices.

No machine with several GPUs is at hand, so one test has two devices and no numbers, and the other
has the numbers of `accelerate`'s hooks on one device.
"""

import os
import subprocess
import sys

import pytest
import torch
from accelerate import dispatch_model

from outrider.modeling.heads.head_config import FINAL_NORM
from outrider.modeling.linear_kernels import pack_linears
from outrider.modeling.ragged_attention import ATTENTION_NAME
from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from outrider.modeling.target import TargetModel
from tests.unit.modeling.tiny_models import configs, plain_model, target_model

FAMILIES = ["mistral-window", "gpt-oss-sinks"]
BOUNDARIES = (0, 1, 2, FINAL_NORM)


@pytest.mark.slow
def test_nothing_of_a_pass_is_on_the_wrong_one_of_two_devices():
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.fake_devices", *FAMILIES],
        env=os.environ | {"PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == FAMILIES


@pytest.mark.parametrize("family", list(configs()))
def test_hooks_between_layers_change_nothing(family):
    alone = target_model(family)
    model = plain_model(family)
    model.set_attn_implementation(ATTENTION_NAME)
    names = ["model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.layers.1"]
    places = dict.fromkeys([*names, "model.norm", "lm_head"], "cpu")
    dispatch_model(model, places, main_device="cpu", force_hooks=True)
    assert pack_linears(model) == 0, "a replaced layer would lose its hook"
    spread = TargetModel(model)
    spread.allocate(512)
    for share in (
        SegmentRows(range(9), range(-1, 8), 0, range(9), 9),
        SegmentRows([5, 6, 7, 8], [-1, 0, 0, 2], 9, range(13), 0),
    ):
        batch = build_ragged_batch([share])
        found, expected = (one.forward_with_features(batch, BOUNDARIES) for one in (spread, alone))
        torch.testing.assert_close(found.logits, expected.logits, atol=2e-5, rtol=2e-5)
        torch.testing.assert_close(found.features, expected.features, atol=2e-5, rtol=2e-5)
