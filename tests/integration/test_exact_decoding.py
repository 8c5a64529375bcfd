"""Speculative and plain decoding give the same ids on real (tiny, random) networks.

Both workers, their codec and their rules run over an in-memory channel; the target is torch.
"""

import random

import pytest
import torch

from outrider.protocol.decoding import Sampling
from tests.fakes.conversation import Conversation, identity
from tests.fakes.random_drafter import RandomDrafter
from tests.unit.modeling.tiny_models import VOCAB, plain_model, target_model
from verify_service.executor import TorchExecutor

ACK = identity(vocab_size=VOCAB, max_nodes=24)
NEW_TOKENS = 24


def decode(family: str, prompts, method: str, sampling: Sampling, **shape) -> list[list[int]]:
    """Ids of all prompts, decoded together."""
    drafters = {"any": RandomDrafter(5, VOCAB)} if method == "any" else None
    talk = Conversation(
        lambda prefix: [],
        ack=ACK,
        drafters=drafters,
        make_target=lambda rows: TorchExecutor(target_model(family, slots=rows)),
        **shape,
    )
    talk.greet()
    ids = [
        talk.open(
            f"s{i}", prompt, method=method, sampling=sampling, max_new_tokens=NEW_TOKENS,
            ignore_eos=True,
        )
        for i, prompt in enumerate(prompts)
    ]  # fmt: skip
    talk.run()
    assert not talk.errors
    assert talk.verify.blocks.in_use == 0
    return [talk.tokens(one) for one in ids]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    rng = random.Random(1)
    motif = [rng.randrange(1, VOCAB) for _ in range(4)]
    return [
        [rng.randrange(1, VOCAB) for _ in range(rng.randint(1, 12))] + motif * rng.randint(1, 3)
        for _ in range(4)
    ]


@pytest.mark.parametrize("family", ["llama", "mistral-window", "gemma2-softcap"])
@pytest.mark.parametrize("method", ["none", "ngram", "any"])
def test_greedy_equals_generate(family, method, prompts):
    plain = plain_model(family)
    expected = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = plain.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
            eos_token_id=None,
        )  # fmt: skip
        expected.append(out[0, len(prompt) :].tolist())
    assert decode(family, prompts, method, Sampling()) == expected


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0, seed=7),
        Sampling(0.6, top_p=0.9, seed=2**63 + 1),
        Sampling(1.5, top_k=20, min_p=0.02, seed=0),
    ],
    ids=["plain", "top_p", "top_k-min_p"],
)
def test_seeded_ids_do_not_depend_on_trees_or_company(sampling, prompts):
    """B13, B17, B19: alone or together, with any draft method, any block size, any budget."""
    alone = [decode("llama", [prompt], "none", sampling)[0] for prompt in prompts]
    for method in ("none", "ngram", "any"):
        assert decode("llama", prompts, method, sampling) == alone
    small = {"block_size": 1, "block_count": 90, "token_budget": 7}
    assert decode("llama", prompts, "any", sampling, **small) == alone
    assert len({tuple(ids) for ids in alone}) > 1
