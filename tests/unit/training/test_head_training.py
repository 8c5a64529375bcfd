"""The training-time test equals drafting one chain at a time, in values and gradients."""

import pytest
import torch
from torch.nn import functional

from outrider.modeling.heads.causal_attention import causal_attend
from outrider.training.conversation import LossOn
from outrider.training.figures import ChainSums
from outrider.training.head_training import HeadTraining
from tests.unit.training.tiny_heads import (
    CONFIGS,
    STEPS,
    make_conversations,
    make_data,
    make_head,
)

SCALES = torch.tensor([1.0, 0.8, 0.64, 0.512]) / 7


@pytest.fixture(autouse=True)
def one_thread():
    """Sums over several threads are rounded in another order, by more than is forgiven here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def draft_chain(head, token_ids, features, start):
    """Logits and feedback of each guess of one chain, as a draft worker would make them.

    The whole sequence is run again for every guess: true features up to the start, then what the
    head fed back.
    """
    hidden = head.fuse(features[: start + 1])
    for step in range(STEPS):
        rows = start + 1 + step
        if rows + 1 > len(token_ids):
            return
        output = head(token_ids[1 : rows + 1], hidden, torch.arange(rows), causal_attend)
        yield head.logits(output.logit_input[-1]), output.feedback[-1]
        hidden = torch.cat([hidden, output.feedback[-1:]])


def slow_objective(head, data, conversations, token_weight, feature_weight, follow_every=1, turn=0):
    """Objective and sums, guess by guess."""
    objective = torch.zeros(())
    sums = torch.zeros(6, STEPS, dtype=torch.float64)
    for index, conversation in enumerate(conversations):
        batch = data.batch(data.plan([index], 0))
        features = batch.features.float()
        length = len(conversation)
        first = conversation.first_counted(LossOn.ANSWER) - 2
        for start in range(first, length - 2):
            goes_on = (start - first - turn) % follow_every == 0
            sums[5] += torch.tensor([1, *[goes_on] * (STEPS - 1)])
            is_unbroken = True
            guesses = draft_chain(head, batch.token_ids, features, start)
            for step, (logits, feedback) in enumerate(guesses):
                label_row = start + 2 + step
                if label_row >= length or (step and not goes_on):
                    break
                sums[3, step] += 1
                label = int(batch.draft_ids[label_row])
                if label < 0:
                    break
                target = torch.zeros(len(logits))
                target[batch.targets.ids[label_row - 1]] = batch.targets.probs[label_row - 1]
                loss = -(target * logits.log_softmax(-1)).sum()
                objective = objective + SCALES[step] * token_weight * loss
                if feature_weight:
                    distance = functional.smooth_l1_loss(feedback, features[label_row - 1])
                    objective = objective + SCALES[step] * feature_weight * distance
                is_hit = int(logits.argmax()) == label
                is_unbroken = is_unbroken and is_hit
                sums[:, step] += torch.tensor(
                    [loss.item(), 1, is_hit, 0, is_unbroken, 0], dtype=torch.float64
                )
    return objective, sums


@pytest.mark.parametrize(("follow_every", "turn"), [(1, 0), (2, 4)])
@pytest.mark.parametrize("name", CONFIGS)
def test_all_at_once_equals_one_chain_at_a_time(name, follow_every, turn):
    config = CONFIGS[name]
    weights = (0.1, 1.0) if name == "eagle1" else (1.0, 0.0)
    conversations = make_conversations(6)
    data = make_data(conversations, config)
    fast, slow = make_head(config), make_head(config)
    plan = data.plan(range(6), 0, follow_every, turn)
    result = HeadTraining(fast, *weights)(data.batch(plan), SCALES)
    objective, sums = slow_objective(slow, data, conversations, *weights, follow_every, turn)
    torch.testing.assert_close(result.objective, objective, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result.sums, sums, atol=1e-4, rtol=1e-5)
    assert (ChainSums(*result.sums).counted > 0).all()
    result.objective.backward()
    objective.backward()
    expected = dict(slow.named_parameters())
    compared = 0
    for parameter_name, parameter in fast.named_parameters():
        if parameter.requires_grad:
            grad = expected[parameter_name].grad
            torch.testing.assert_close(parameter.grad, grad, atol=1e-5, rtol=1e-4)
            assert parameter.grad.abs().max() > 1e-6
            compared += 1
    assert compared >= 10


@pytest.mark.parametrize("name", CONFIGS)
def test_narrow_products_teach_nearly_the_same(name):
    config = CONFIGS[name]
    weights = (0.1, 1.0) if name == "eagle1" else (1.0, 0.0)
    data = make_data(make_conversations(6), config)
    batch = data.batch(data.plan(range(6), 0))
    wide, narrow = make_head(config), make_head(config)
    expected = HeadTraining(wide, *weights)(batch, SCALES)
    found = HeadTraining(narrow, *weights, torch.bfloat16)(batch, SCALES)
    assert found.objective != expected.objective
    torch.testing.assert_close(found.objective, expected.objective, rtol=0.02, atol=0.0)
    expected.objective.backward()
    found.objective.backward()
    gradients = {name: one.grad for name, one in wide.named_parameters() if one.grad is not None}
    for parameter_name, parameter in narrow.named_parameters():
        if parameter_name in gradients:
            assert parameter.dtype == parameter.grad.dtype == torch.float32
            pair = parameter.grad.flatten(), gradients[parameter_name].flatten()
            assert torch.cosine_similarity(*pair, dim=0) > 0.95, parameter_name


def test_without_gradients_the_sums_are_the_same():
    config = CONFIGS["eagle3"]
    data = make_data(make_conversations(3), config)
    training = HeadTraining(make_head(config))
    batch = data.batch(data.plan(range(3), 0))
    with torch.no_grad():
        measured = training(batch, SCALES)
    torch.testing.assert_close(measured.sums, training(batch, SCALES).sums)


def test_a_batch_in_which_nothing_counts_has_gradients_of_zero():
    config = CONFIGS["eagle3"]
    conversations = make_conversations(1)
    conversations[0].token_ids[:] = 1  # none of them can be guessed
    data = make_data(conversations, config)
    head = make_head(config)
    result = HeadTraining(head)(data.batch(data.plan([0], 0)), SCALES)
    result.objective.backward()
    assert result.objective == 0.0
    assert all(p.grad is None or not p.grad.any() for p in head.parameters())
