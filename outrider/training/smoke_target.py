"""A tiny random target with a tokenizer of its own, for trying the whole pipeline out.

The weights are drawn so that its text is neither noise nor a constant: attention is weak, so the
next token depends mostly on the last one, and logits are wide, so that it is fairly sure of it.
Such a text can be learnt in a minute, which is all that is asked.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from outrider.evaluation.prompts import OWN_SET

VOCAB_SIZE = 500
LAYERS = 4
HIDDEN_SIZE = 96
CONTEXT_LIMIT = 256
END_TOKEN = "<|end|>"
SPECIAL_TOKENS = ("<|start|>", END_TOKEN, "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ATTENTION_SCALE = 0.05
LOGIT_SCALE = 8.0


def build_smoke_target(folder: Path, seed: int) -> None:
    """Writes the target in the layout that `transformers` loads.

    Args:
        folder: Made where missing.
        seed: Of the weights.
    """
    tokenizer = _build_tokenizer()
    network = _build_network(len(tokenizer), seed)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    network.save_pretrained(folder)


def _build_tokenizer() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    wrapped: Any = PreTrainedTokenizerFast
    return wrapped(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL_TOKENS[0],
        eos_token=END_TOKEN,
        pad_token=END_TOKEN,
        chat_template=CHAT_TEMPLATE,
    )


def _texts() -> Iterator[str]:
    for path in sorted(OWN_SET.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from json.loads(line)["turns"]


def _build_network(vocab_size: int, seed: int) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=HIDDEN_SIZE,
        intermediate_size=2 * HIDDEN_SIZE,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_LIMIT,
        initializer_range=0.1,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        tie_word_embeddings=False,
    )
    network: Any = LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in network.model.layers:
            layer.self_attn.o_proj.weight *= ATTENTION_SCALE
        network.lm_head.weight *= LOGIT_SCALE
    return network.eval()
