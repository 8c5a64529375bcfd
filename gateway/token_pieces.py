"""What each token id adds to the text, as bytes.

Joining the bytes of some ids and reading them as UTF-8 gives the tokenizer's own decoding, so that
text can be built id by id without ever decoding twice. Knows two families of tokenizers: byte-level
ones (GPT-2, Llama 3, Qwen) and SentencePiece-like ones with byte fallback (Llama 2, Mistral,
Gemma). Any other is refused in words. Policy: plain values only.

One difference is deliberate: where a byte-fallback model emits bytes that are not UTF-8, this
yields one replacement character per broken sequence, its tokenizer one per byte of the whole run.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class UnknownDecoder(ValueError):
    """A tokenizer whose way from tokens to text is not known here."""


@dataclass(frozen=True, slots=True)
class TokenPieces:
    """The bytes of every token.

    Args:
        pieces: Bytes by token id; special tokens add none.
        leading_spaces: Most spaces that are left out at the start of a decoded text.
    """

    pieces: tuple[bytes, ...] = field(repr=False)
    leading_spaces: int = 0

    def __getitem__(self, token_id: int) -> bytes:
        """Bytes of one id; none for an id that the tokenizer does not know (padded vocabulary)."""
        return self.pieces[token_id] if token_id < len(self.pieces) else b""


def read_token_pieces(tokenizer: Tokenizer) -> TokenPieces:
    """Lists the bytes of each token.

    Args:
        tokenizer: With its decoder and added tokens.

    Returns:
        The pieces, special tokens empty.

    Raises:
        UnknownDecoder: The decoder is of another family.
    """
    to_bytes, leading_spaces = _read_decoder(json.loads(tokenizer.to_str())["decoder"])
    special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    pieces = [b""] * (max(vocab.values(), default=-1) + 1)
    for token, token_id in vocab.items():
        if token_id not in special:
            pieces[token_id] = to_bytes(token)
    return TokenPieces(tuple(pieces), leading_spaces)


def _read_decoder(decoder: Mapping[str, Any] | None) -> tuple[Callable[[str], bytes], int]:
    if decoder is None:
        raise UnknownDecoder("the tokenizer has no decoder")
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _byte_level_bytes, 0
    replaced: list[tuple[str, str]] = []
    leading_spaces = 0
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
                replaced.append((old, new))
            case {"type": "Strip", "content": " ", "start": int(start), "stop": 0}:
                leading_spaces += start
            case {"type": "ByteFallback" | "Fuse"}:
                pass
            case _:
                raise UnknownDecoder(f"the tokenizer's decoder ({', '.join(kinds)}) is not known")
    if "ByteFallback" not in kinds or "Fuse" not in kinds:
        raise UnknownDecoder(f"the tokenizer's decoder ({', '.join(kinds)}) is not known")
    return _byte_fallback_bytes(replaced), leading_spaces


def _byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-in of each byte: itself where printable, else from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()


def _byte_level_bytes(token: str) -> bytes:
    try:
        return bytes(_BYTE_OF_CHARACTER[character] for character in token)
    except KeyError:
        return token.encode()  # an added token, written in plain characters


def _byte_fallback_bytes(replaced: list[tuple[str, str]]) -> Callable[[str], bytes]:
    def to_bytes(token: str) -> bytes:
        for old, new in replaced:
            token = token.replace(old, new)
        match = _BYTE_TOKEN.fullmatch(token)
        return bytes([int(match[1], 16)]) if match else token.encode()

    return to_bytes
