"""The canary's text is what `transformers` itself would write, with the features on the way."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from outrider.canary import PROMPTS
from outrider.head_files import canary_run
from outrider.head_files.canary_run import CanaryTarget
from tests.unit.gateway.tiny_tokenizer import CHAT_TEMPLATE, tiny_tokenizer

LAYERS, SIZE, ANSWER = 3, 16, 12


def _write_target(folder: Path, eos_token_id: int | None) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tiny_tokenizer().get_vocab_size(),
        hidden_size=SIZE,
        intermediate_size=24,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=eos_token_id,
        bos_token_id=None,
    )
    network: Any = LlamaForCausalLM(config)
    network.eval().save_pretrained(folder)
    wrap: Any = PreTrainedTokenizerFast
    wrap(tokenizer_object=tiny_tokenizer(), chat_template=CHAT_TEMPLATE).save_pretrained(folder)
    return network


@pytest.fixture(autouse=True)
def _short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary_run, "ANSWER_TOKENS", ANSWER)


def test_answers_are_greedy_and_features_the_targets_own(tmp_path: Path) -> None:
    network = _write_target(tmp_path, eos_token_id=None)
    texts = CanaryTarget(tmp_path).texts((1, 2))
    assert len(texts) == len(PROMPTS)
    for text in texts:
        with torch.inference_mode():
            output = network(text.token_ids[None], output_hidden_states=True)
        assert torch.equal(text.greedy_ids, output.logits[0].argmax(-1))
        start = text.first_answer
        assert torch.equal(text.token_ids[start:], text.greedy_ids[start - 1 : -1])
        assert len(text.token_ids) == start + ANSWER - 1
        expected = torch.cat([output.hidden_states[1][0], output.hidden_states[2][0]], dim=-1)
        torch.testing.assert_close(text.features, expected, atol=1e-4, rtol=1e-4)


def test_an_answer_ends_where_the_target_ends_it(tmp_path: Path) -> None:
    _write_target(tmp_path / "a", eos_token_id=None)
    long = CanaryTarget(tmp_path / "a").texts((1,))[0]
    end = int(long.token_ids[long.first_answer + 9])
    _write_target(tmp_path / "b", eos_token_id=end)
    short = CanaryTarget(tmp_path / "b").texts((1,))[0]
    answer = [*long.token_ids[long.first_answer :].tolist(), int(long.greedy_ids[-1])]
    # An end among the first few tokens is read past, so that there is something to count.
    length = next(count for count in range(8, len(answer) + 1) if answer[count - 1] == end)
    assert len(short.token_ids) == short.first_answer + length - 1
