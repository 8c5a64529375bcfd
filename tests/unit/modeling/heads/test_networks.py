"""The heads equal an independent reference, for every combination of options."""

from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor

from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.heads.heads import build_head
from outrider.modeling.linear_kernels import pack_linears
from tests.unit.modeling.heads import reference
from tests.unit.modeling.heads.tiny_heads import (
    VOCAB,
    eagle1_config,
    eagle3_config,
    random_rows,
    random_tensors,
    tiny_head,
)

assert_close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)
FIRST = 7  # position of the first row
BEFORE_FC: tuple[dict[str, bool], ...] = ({}, {"fc_norm": True}, {"norm_before_fc": True})
SWITCHES = ("fc_bias", "attention_bias", "qk_norm")


def both_ways(config: HeadConfig, num_rows: int = 4) -> list[tuple[Tensor, Tensor]]:
    """What head and reference say: hidden states, logits, feedback, and one step on that again."""
    tensors = random_tensors(config)
    head = build_head(config, tensors, torch.float32, "cpu")
    token_ids, features = random_rows(config, num_rows)
    positions = torch.arange(FIRST, FIRST + num_rows)
    fused = reference.fuse(config, tensors, features)
    pairs = [(head.fuse(features), fused)]
    hidden = fused
    for shift in range(2):
        tokens = token_ids[shift:] + token_ids[:shift]
        output = head(torch.tensor(tokens), hidden, positions, causal_attend)
        logits, feedback = reference.step(config, tensors, tokens, hidden, FIRST)
        pairs += [(head.logits(output.logit_input), logits), (output.feedback, feedback)]
        hidden = feedback
    return pairs


@pytest.mark.parametrize("before_fc", BEFORE_FC, ids=["plain-fc", "fc_norm", "norm_before_fc"])
@pytest.mark.parametrize("num_layers", [1, 2])
@torch.inference_mode()
def test_an_eagle3_head_equals_the_reference(before_fc, num_layers):
    names = (*SWITCHES, "norm_before_residual", "norm_output")
    for values in product((False, True), repeat=len(names)):
        options = dict(zip(names, values, strict=True))
        config = eagle3_config(num_layers=num_layers, **before_fc, **options)
        for ours, expected in both_ways(config):
            assert_close(ours, expected, msg=f"{options}")


@pytest.mark.parametrize("draft_vocab_size", [VOCAB, 11])
@torch.inference_mode()
def test_an_eagle1_head_equals_the_reference(draft_vocab_size):
    for num_layers, values in product((1, 2), product((False, True), repeat=len(SWITCHES))):
        options = dict(zip(SWITCHES, values, strict=True))
        config = eagle1_config(num_layers=num_layers, draft_vocab_size=draft_vocab_size, **options)
        for ours, expected in both_ways(config):
            assert_close(ours, expected, msg=f"{options}")


@pytest.mark.parametrize("norm_before_residual", [False, True])
@torch.inference_mode()
def test_the_residual_is_the_hidden_state_before_its_norm(norm_before_residual):
    """B36: with attention and MLP silenced, what comes out is the residual itself."""
    config = eagle3_config(norm_before_residual=norm_before_residual)
    tensors = random_tensors(config)
    tensors["layers.0.self_attn.o_proj.weight"].zero_()
    tensors["layers.0.mlp.down_proj.weight"].zero_()
    head = build_head(config, tensors, torch.float32, "cpu")
    hidden = 5 * torch.randn(3, config.hidden_size, generator=torch.Generator().manual_seed(1))
    output = head(torch.tensor([1, 2, 3]), hidden, torch.arange(3), causal_attend)
    root = (hidden.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).sqrt()
    normed = hidden / root * tensors["layers.0.hidden_norm.weight"]
    torch.testing.assert_close(output.feedback, normed if norm_before_residual else hidden)


@torch.inference_mode()
def test_sequences_side_by_side_are_independent():
    config = eagle3_config(num_layers=2)
    head = tiny_head(config)
    tokens = torch.stack([torch.tensor(random_rows(config, 5, seed)[0]) for seed in range(3)])
    features = torch.stack([random_rows(config, 5, seed)[1] for seed in range(3)])
    positions = torch.arange(5).expand(3, 5)
    together = head(tokens, head.fuse(features), positions, causal_attend)
    for i in range(3):
        alone = head(tokens[i], head.fuse(features[i]), positions[i], causal_attend)
        torch.testing.assert_close(together.feedback[i], alone.feedback)
        torch.testing.assert_close(together.logit_input[i], alone.logit_input)


def test_gradients_reach_every_weight():
    for config in (
        eagle3_config(num_layers=2, fc_norm=True, fc_bias=True, attention_bias=True, qk_norm=True),
        eagle3_config(norm_before_fc=True),
        eagle1_config(num_layers=2, attention_bias=True),
    ):
        head = tiny_head(config)
        assert isinstance(head, torch.nn.Module)
        tokens, features = random_rows(config, 6)
        hidden = head.fuse(features)
        for _ in range(2):  # two steps, as training feeds a head its own feedback
            output = head(torch.tensor(tokens), hidden, torch.arange(6), causal_attend)
            hidden = output.feedback
        head.logits(output.logit_input).logsumexp(-1).sum().backward()
        for name, parameter in head.named_parameters():
            assert parameter.grad is not None, name
            if not name.endswith(
                "k_proj.bias"
            ):  # shifts all scores of a row alike, but for rotation
                assert parameter.grad.abs().max() > 0, name


@torch.inference_mode()
def test_a_packed_head_computes_the_same():
    config = eagle3_config()
    plain, packed = tiny_head(config), tiny_head(config)
    assert isinstance(packed, torch.nn.Module)
    assert pack_linears(packed) == 9  # fc, four of attention, three of the MLP, lm_head
    tokens, features = random_rows(config, 4)
    outputs = [
        head.logits(
            head(torch.tensor(tokens), head.fuse(features), torch.arange(4), causal_attend)[0]
        )
        for head in (plain, packed)
    ]
    assert_close(outputs[0], outputs[1])
