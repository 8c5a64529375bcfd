"""The loss that keeps no logits equals the plain one."""

import pytest
import torch

from outrider.training import soft_loss
from outrider.training.soft_loss import SoftTargets, soft_cross_entropy

ROWS, WIDTH, VOCAB, KEPT = 11, 8, 17, 4


def draw(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(ROWS, WIDTH, generator=generator).requires_grad_()
    weight = torch.randn(VOCAB, WIDTH, generator=generator).requires_grad_()
    probs, ids = torch.randn(ROWS, VOCAB, generator=generator).softmax(-1).topk(KEPT)
    targets = SoftTargets(ids, probs / probs.sum(-1, keepdim=True))
    return inputs, weight, targets, torch.rand(ROWS, generator=generator)


def plain(inputs, weight, targets, row_weights):
    dense = torch.zeros(ROWS, VOCAB).scatter(1, targets.ids, targets.probs)
    losses = -(dense * (inputs @ weight.T).log_softmax(-1)).sum(-1)
    return losses, (losses * row_weights).sum()


@pytest.mark.parametrize("chunk_rows", [1, 4, 512])
def test_values_and_gradients_in_chunks(monkeypatch, chunk_rows):
    monkeypatch.setattr(soft_loss, "CHUNK_ROWS", chunk_rows)
    inputs, weight, targets, row_weights = draw()
    result = soft_cross_entropy(inputs, weight, targets, row_weights)
    losses, total = plain(inputs, weight, targets, row_weights)
    torch.testing.assert_close(result.total, total)
    torch.testing.assert_close(result.losses, losses)
    assert torch.equal(result.guesses, (inputs @ weight.T).argmax(-1))
    expected = torch.autograd.grad(total * 3, [inputs, weight])
    torch.testing.assert_close(torch.autograd.grad(result.total * 3, [inputs, weight]), expected)


def test_narrow_products_change_little_and_gradients_stay_wide():
    inputs, weight, targets, row_weights = draw()
    result = soft_cross_entropy(inputs, weight, targets, row_weights, torch.bfloat16)
    losses, total = plain(inputs, weight, targets, row_weights)
    assert result.losses.dtype == torch.float32
    torch.testing.assert_close(result.losses, losses, atol=0.03, rtol=0.01)
    gradients = torch.autograd.grad(result.total, [inputs, weight])
    plain_ones = torch.autograd.grad(total, [inputs, weight])
    for found, expected in zip(gradients, plain_ones, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)
        assert not torch.equal(found, expected)


def test_a_frozen_language_model_head_gets_no_gradient():
    inputs, weight, targets, row_weights = draw()
    frozen = weight.detach()
    result = soft_cross_entropy(inputs, frozen, targets, row_weights)
    result.total.backward()
    expected = torch.autograd.grad(plain(inputs, frozen, targets, row_weights)[1], inputs)
    torch.testing.assert_close(inputs.grad, expected[0])


def test_no_rows_are_no_loss():
    inputs, weight, targets, row_weights = draw()
    none = SoftTargets(targets.ids[:0], targets.probs[:0])
    result = soft_cross_entropy(inputs[:0], weight, none, row_weights[:0])
    result.total.backward()
    assert result.total == 0.0
    assert not weight.grad.any()
