"""Builds a tiny random Llama with a tokenizer of its own, in the layout that `transformers` loads.

The weights are random but chosen so that greedy text soon repeats itself, with a period of several
tokens: then n-gram drafts are accepted, and whole blocks of them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT_LIMIT = 256
END_TOKEN = "<|end|>"
SPECIAL_TOKENS = ["<|start|>", END_TOKEN, "<|user|>", "<|assistant|>", "<|system|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SENTENCES = [
    "the coach rolls over the long bridge while the outrider looks for a dry way home",
    "seven grey horses wait beside the old inn and the rain falls on the red roof",
    "a small lamp shines in the window of the mill until the miller goes to bed",
    "bring two ropes, one wheel and a bag of oats before the road turns to mud",
    "we count the stones along the river and sing about the far hills at night",
]
VOCAB_SIZE = 160
MIN_PERIOD = 3
SEED = 1
# Small attention: the next token depends mostly on the last one, so greedy text falls into a cycle.
ATTENTION_SCALE = 0.1
# Sharper distributions: near-ties become rare, and sampled tokens are sometimes drafted too.
LOGIT_SCALE = 4.0


@dataclass(frozen=True)
class Cycle:
    """A prompt that has already begun to repeat itself.

    Args:
        prompt_ids: Ends inside the repetition.
        next_ids: The greedy continuation, which goes on repeating; as long as asked for.
    """

    prompt_ids: list[int]
    next_ids: list[int]


@dataclass(frozen=True)
class TinyModel:
    """A folder, and what a test needs to know of it."""

    folder: Path
    tokenizer: Any
    network: Any
    _answers: dict[tuple[tuple[int, ...], int, bool], list[int]] = field(default_factory=dict)

    def chat_ids(self, text: str) -> list[int]:
        """One user message through the chat template."""
        encoded = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )
        return list(encoded["input_ids"])

    def greedy(
        self, prompt_ids: list[int], max_new_tokens: int, *, ignore_eos: bool = False
    ) -> list[int]:
        """What `transformers` generates alone."""
        key = (tuple(prompt_ids), max_new_tokens, ignore_eos)
        if key not in self._answers:
            self._answers[key] = self._generate(prompt_ids, max_new_tokens, ignore_eos)
        return list(self._answers[key])

    def _generate(self, prompt_ids: list[int], max_new_tokens: int, ignore_eos: bool) -> list[int]:
        rows = torch.tensor([prompt_ids])
        options = {"eos_token_id": None} if ignore_eos else {}
        with torch.inference_mode():
            output = self.network.generate(
                rows,
                attention_mask=torch.ones_like(rows),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                **options,
            )
        return list(output[0, len(prompt_ids) :].tolist())

    def text(self, ids: list[int]) -> str:
        """The tokenizer's own decoding."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def cycle(self, length: int = 24) -> Cycle:
        """A repetition whose coming tokens an n-gram draft finds in the prompt."""
        start = self.chat_ids(SENTENCES[0])
        ids = self.greedy(start, 80 + length, ignore_eos=True)
        period = find_period(ids[:80])
        assert period >= MIN_PERIOD, "greedy text no longer repeats itself; choose another SEED"
        return Cycle(start + ids[:80], ids[80:])


def find_period(ids: list[int]) -> int:
    """After how many tokens the end of a sequence repeats, thrice at least; 0 if it does not."""
    for period in range(1, len(ids) // 3):
        if ids[-period:] == ids[-2 * period : -period] == ids[-3 * period : -2 * period]:
            return period
    return 0


def build_tiny_model(folder: Path) -> TinyModel:
    """Writes the model; one token of its cycle is a second end-of-sequence id."""
    torch.set_num_threads(1)  # the model is too small to share, and the services need the cores
    tokenizer = _build_tokenizer()
    network = _build_network(len(tokenizer))
    end_ids = [tokenizer.eos_token_id, TinyModel(folder, tokenizer, network).cycle().next_ids[2]]
    network.config.eos_token_id = network.generation_config.eos_token_id = end_ids
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return TinyModel(folder, tokenizer, network)


def build_draft_model(tiny_model: TinyModel, folder: Path) -> Path:
    """Writes another random network with the tokenizer of a tiny model; it has learnt nothing."""
    network = _build_network(len(tiny_model.tokenizer), seed=2, layer_count=1)
    network.save_pretrained(folder)
    tiny_model.tokenizer.save_pretrained(folder)
    return folder


def _build_tokenizer() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    wrapped: Any = PreTrainedTokenizerFast
    return wrapped(
        tokenizer_object=tokenizer,
        bos_token="<|start|>",
        eos_token=END_TOKEN,
        pad_token=END_TOKEN,
        chat_template=CHAT_TEMPLATE,
    )


def _build_network(vocab_size: int, seed: int = SEED, layer_count: int = 2) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layer_count,
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
