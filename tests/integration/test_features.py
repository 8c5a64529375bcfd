"""Features that reach a drafter are the hidden states of the target run over the plain text.

Both workers and their codec run over an in-memory channel; the target is a tiny random network.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from draft_service.drafters.none import NoDrafter
from outrider.protocol.decoding import Sampling
from outrider.protocol.features import FINAL_NORM, FeatureLayout
from outrider.protocol.messages import FeatureRows
from tests.fakes.conversation import Conversation, identity
from tests.fakes.random_drafter import RandomDrafter
from tests.unit.modeling.tiny_models import VOCAB, plain_model, target_model
from verify_service.executor import TorchExecutor

HIDDEN_SIZE, LAYER_COUNT = 32, 2
LAYOUT = FeatureLayout((0, 1, FINAL_NORM), HIDDEN_SIZE)
SAMPLED = Sampling(1.0, seed=7)
PROMPTS = [[5, 9, 2], [5, 9, 2, 40, 8, 8, 31], [17]]


class Keeper(RandomDrafter):
    """Keeps all features."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, VOCAB)
        self.taken: defaultdict[bytes, list[np.ndarray]] = defaultdict(list)

    def features_from(self, session_id: bytes) -> int:
        return sum(map(len, self.taken[session_id]))

    def take_features(self, rows: FeatureRows) -> None:
        values = np.frombuffer(rows.data, "<f4").reshape(rows.row_count, rows.row_size)
        self.taken[rows.session_id].append(values)


def keeping_talk(family: str, keeper: Keeper, **shape: Any) -> Conversation:
    ack = identity(vocab_size=VOCAB, max_nodes=8)
    target = replace(ack.target, hidden_size=HIDDEN_SIZE, layer_count=LAYER_COUNT)
    talk = Conversation(
        lambda prefix: [],
        ack=replace(ack, target=target),
        drafters={"head": keeper, "none": NoDrafter()},
        make_target=lambda rows: TorchExecutor(target_model(family, slots=rows), rows),
        layout=LAYOUT,
        **shape,
    )
    talk.greet()
    return talk


def check_features(talk: Conversation, family: str, keeper: Keeper, one: bytes, prompt) -> None:
    text = prompt + talk.tokens(one)
    taken = np.concatenate(keeper.taken[one])
    assert len(taken) == len(text) - len(talk.rounds[one][-1].token_ids) - 1
    with torch.inference_mode():
        states = plain_model(family)(torch.tensor([text]), output_hidden_states=True).hidden_states
    expected = torch.cat([states[layer][0, : len(taken)] for layer in LAYOUT.feature_layers], 1)
    torch.testing.assert_close(torch.tensor(taken), expected, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("family", ["llama", "gemma2-softcap"])
def test_features_are_the_targets_hidden_states(family):
    """B42: three layers wide, over split workers, with prefill, trees and preemption."""
    keeper = Keeper(5)
    talk = keeping_talk(family, keeper, block_size=1, block_count=50, token_budget=7)
    ids = [
        talk.open(f"s{i}", prompt, method="head", sampling=SAMPLED, max_new_tokens=20)
        for i, prompt in enumerate(PROMPTS)
    ]
    talk.run()
    assert not talk.errors
    assert talk.verify.counters.preemptions > 0
    for one, prompt in zip(ids, PROMPTS, strict=True):
        check_features(talk, family, keeper, one, prompt)


@pytest.mark.parametrize("family", ["llama", "mistral-window", "gemma2-softcap"])
@pytest.mark.parametrize("earlier", ["head", "none"])
def test_rows_of_an_earlier_session_serve_with_their_features(family, earlier):
    """B33: a hit changes neither the text nor what the head is given, whoever ran the rows."""
    system = [3 + i * i % 50 for i in range(37)]
    prompts = [[*system, 7, 8, 9], [*system, 60, 2], [*system[:10], 1]]
    keeper = Keeper(5)
    talk = keeping_talk(family, keeper, block_size=4)
    talk.open("first", system, method=earlier, sampling=SAMPLED, max_new_tokens=20, ignore_eos=True)
    talk.run()
    ids = [
        talk.open(
            f"s{i}", prompt, method="head", sampling=SAMPLED, max_new_tokens=20, ignore_eos=True
        )
        for i, prompt in enumerate(prompts)
    ]
    talk.run()
    assert not talk.errors
    assert talk.verify.counters.prefix_hit_rows == 36 + 36 + 8
    for one, prompt in zip(ids, prompts, strict=True):
        check_features(talk, family, keeper, one, prompt)
        alone = keeping_talk(family, Keeper(9), block_size=4)
        again = alone.open(
            "a", prompt, method="none", sampling=SAMPLED, max_new_tokens=20, ignore_eos=True
        )
        alone.run()
        assert talk.tokens(one) == alone.tokens(again)
