"""A byte-level BPE tokenizer of 3 special tokens, 256 bytes and a few merges, made in memory."""

from datetime import datetime
from itertools import pairwise

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from gateway.chat_template import ChatTemplate
from gateway.tokenization import PromptTokenizer

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
EOS_ID = 2

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Each word is merged from left to right. The last one joins the first halves of many emoji.
_WORDS = ("hello", "Ġworld", "stop", "ing", "ðŁ")


def tiny_tokenizer() -> Tokenizer:
    """The tokenizer; ids 0 to 2 are special, 3 to 258 single bytes."""
    vocab = {token: i for i, token in enumerate((END_OF_TEXT, IM_START, IM_END))}
    for character in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[character] = len(vocab)
    merges: list[tuple[str, str]] = []
    for word in _WORDS:
        prefixes = [word[:length] for length in range(1, len(word) + 1)]
        for left, whole in pairwise(prefixes):
            merges.append((left, whole[-1]))
            vocab.setdefault(whole, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True) for token in (END_OF_TEXT, IM_START, IM_END)]
    )
    return tokenizer


def tiny_prompt_tokenizer() -> PromptTokenizer:
    """The tokenizer with its chat template."""
    template = ChatTemplate(CHAT_TEMPLATE, {"eos_token": IM_END}, now=lambda: datetime(2026, 1, 1))
    return PromptTokenizer(tiny_tokenizer(), template)


def ids_of(text: str) -> list[int]:
    """Token ids of plain text, one per byte or merge."""
    return list(tiny_tokenizer().encode(text, add_special_tokens=False).ids)


def byte_id(byte: int) -> int:
    """The id of the token that is this one byte."""
    tokenizer = tiny_prompt_tokenizer()
    return tokenizer.pieces.pieces.index(bytes([byte]))
