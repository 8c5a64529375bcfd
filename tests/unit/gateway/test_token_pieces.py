"""Bytes of each token, for both families of tokenizers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models

from gateway.text_stream import TextStream
from gateway.token_pieces import UnknownDecoder, read_token_pieces
from tests.unit.gateway.tiny_tokenizer import ids_of, tiny_tokenizer


def byte_fallback_tokenizer(with_strip: bool = True) -> Tokenizer:
    """As Llama 2's: U+2581 for a space, tokens <0x00> to <0xFF>."""
    tokens = ["<s>", "▁", "▁a", "b", "▁▁", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] * with_strip)])
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    return tokenizer


def test_special_and_unknown_ids_have_no_bytes() -> None:
    pieces = read_token_pieces(tiny_tokenizer())
    assert pieces[0] == pieces[2] == pieces[100_000] == b""
    assert b"".join(pieces[i] for i in ids_of("hello wörld")) == "hello wörld".encode()


def test_an_added_token_that_is_not_special_is_its_own_text() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken("<tool> ☃", special=False)])
    token_id = tokenizer.get_vocab()["<tool> ☃"]
    assert read_token_pieces(tokenizer)[token_id] == "<tool> ☃".encode()


@pytest.mark.parametrize("with_strip", [True, False])
@given(
    ids=st.lists(st.integers(0, 4), max_size=8),
    text=st.text("é☃🙂", max_size=4),
    more=st.lists(st.integers(0, 4), max_size=4),
)
def test_byte_fallback_gives_the_tokenizers_own_decoding(
    with_strip: bool, ids: list[int], text: str, more: list[int]
) -> None:
    tokenizer = byte_fallback_tokenizer(with_strip)
    all_ids = [*ids, *(5 + byte for byte in text.encode()), *more]
    delta = TextStream(read_token_pieces(tokenizer), []).add(all_ids, is_last=True)
    assert delta.text == tokenizer.decode(all_ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    "decoder", [None, decoders.WordPiece(), decoders.Sequence([decoders.Fuse()])]
)
def test_other_families_are_refused(decoder: decoders.Decoder | None) -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    if decoder is not None:
        tokenizer.decoder = decoder
    with pytest.raises(UnknownDecoder, match="decoder"):
        read_token_pieces(tokenizer)
