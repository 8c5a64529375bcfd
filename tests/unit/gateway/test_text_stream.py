"""Text from token ids: exact, UTF-8-safe, ended by whatever terminates first."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text_stream import TextDelta, TextStream
from gateway.token_pieces import TokenPieces, read_token_pieces
from tests.unit.gateway.tiny_tokenizer import EOS_ID, byte_id, ids_of, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
PIECES = read_token_pieces(TOKENIZER)
VOCAB_SIZE = TOKENIZER.get_vocab_size()


def blocks(ids: list[int], sizes: list[int]) -> list[list[int]]:
    """Cuts ids into rounds of these sizes, the rest in one."""
    rounds = []
    for size in sizes:
        rounds.append(ids[:size])
        ids = ids[size:]
    return [r for r in [*rounds, ids] if r]


def run(ids: list[int], sizes: list[int], stop: list[str]) -> list[TextDelta]:
    """All deltas of one stream; log-probabilities are the ids' places."""
    stream = TextStream(PIECES, stop)
    deltas: list[TextDelta] = []
    rounds = blocks(ids, sizes)
    place = 0
    for number, round_ids in enumerate(rounds):
        log_probs = [float(place + i) for i in range(len(round_ids))]
        is_last = number == len(rounds) - 1
        deltas.append(stream.add(round_ids, log_probs, len(round_ids) - 1, is_last))
        place += len(round_ids)
        if deltas[-1].is_stopped:
            break
    return deltas


sizes_strategy = st.lists(st.integers(1, 9), max_size=30)
ids_strategy = st.lists(st.integers(0, VOCAB_SIZE + 3), min_size=1, max_size=60)
# High bytes only: mostly broken UTF-8.
broken_strategy = st.lists(
    st.sampled_from([i for i, piece in enumerate(PIECES.pieces) if piece >= b"\x80"]),
    min_size=1,
    max_size=30,
)


@given(ids=st.one_of(ids_strategy, broken_strategy), sizes=sizes_strategy)
def test_deltas_join_to_the_tokenizers_own_decoding(ids: list[int], sizes: list[int]) -> None:
    text = "".join(delta.text for delta in run(ids, sizes, []))
    assert text == TOKENIZER.decode(ids, skip_special_tokens=True)


@given(
    ids=st.one_of(ids_strategy, broken_strategy),
    sizes=sizes_strategy,
    stop=st.lists(st.text("aeo \ufffd", min_size=1, max_size=2), max_size=2),
)
def test_each_tokens_own_text_is_told_although_stop_strings_hold_it_back(
    ids: list[int], sizes: list[int], stop: list[str]
) -> None:
    deltas = run(ids, sizes, stop)
    for delta in deltas:
        assert len(delta.token_texts) == len(delta.token_ids)
    text = "".join(delta.text for delta in deltas)
    own = "".join(piece for delta in deltas for piece in delta.token_texts)
    if not deltas[-1].is_stopped:
        assert own == text
        return
    # It goes on behind the text, with the stop string and what is left of the last token.
    assert own.startswith(text)
    assert any(own.removeprefix(text).startswith(string) for string in stop)


@given(text=st.text(min_size=1, max_size=40), sizes=sizes_strategy)
def test_deltas_join_to_the_text_that_was_encoded(text: str, sizes: list[int]) -> None:
    deltas = run(ids_of(text), sizes, [])
    assert "".join(delta.text for delta in deltas) == text
    assert not any("\ufffd" in delta.text for delta in deltas) or "\ufffd" in text


@pytest.mark.parametrize("text", ["👩‍🚀 ok", "e\u0301\u0327", "नमस्ते", "\u202eabc", "a\x00b"])
def test_no_delta_holds_a_broken_character(text: str) -> None:
    ids = ids_of(text)
    deltas = run(ids, [1] * len(ids), [])
    assert "".join(delta.text for delta in deltas) == text
    assert all("\ufffd" not in delta.text for delta in deltas)


@given(
    text=st.text("ab🙂é", min_size=1, max_size=30),
    stop=st.lists(st.text("ab🙂é", min_size=1, max_size=4), min_size=1, max_size=4),
    sizes=sizes_strategy,
)
def test_stop_strings_cut_text_and_arrays_at_one_token(
    text: str, stop: list[str], sizes: list[int]
) -> None:
    ids = ids_of(text)
    deltas = run(ids, sizes, stop)
    ends = [end for end in range(1, len(text) + 1) if any(text[:end].endswith(s) for s in stop)]
    shown = "".join(delta.text for delta in deltas)
    if not ends:
        assert shown == text
        assert not deltas[-1].is_stopped
        return
    longest = max(len(s) for s in stop if text[: ends[0]].endswith(s))
    assert shown == text[: ends[0] - longest]
    assert deltas[-1].is_stopped
    kept = [token_id for delta in deltas for token_id in delta.token_ids]
    assert kept == ids[: len(kept)]
    # The last kept token, and none before it, completes the string.
    assert TOKENIZER.decode(kept).startswith(text[: ends[0]])
    assert not TOKENIZER.decode(kept[:-1]).startswith(text[: ends[0]])
    assert [p for delta in deltas for p in delta.log_probs] == [float(i) for i in range(len(kept))]


def test_text_and_ids_and_log_probs_are_cut_in_mid_block() -> None:
    """B4 and B3: a stop string of tokens 1 and 2 in a block of 5."""
    ids = ids_of("ab") + ids_of("cde")
    delta = TextStream(PIECES, ["ab"]).add(ids, [0.5, 1.5, 2.5, 3.5, 4.5], accepted_count=4)
    assert delta == TextDelta("", tuple(ids[:2]), (0.5, 1.5), 2, True, ("a", "b"))


def test_a_stop_string_beats_a_later_end_of_sequence_and_a_later_limit() -> None:
    """B2: the earliest terminator of a block wins."""
    ids = [*ids_of("xy"), *ids_of("z"), EOS_ID, *ids_of("w")]
    delta = TextStream(PIECES, ["xy"]).add(ids, accepted_count=4, is_last=True)
    assert (delta.text, delta.token_ids, delta.is_stopped) == ("", tuple(ids[:2]), True)


def test_an_earlier_end_of_sequence_flushes_what_was_held() -> None:
    ids = [*ids_of("sto"), EOS_ID]
    delta = TextStream(PIECES, ["stop"]).add(ids, is_last=True)
    assert (delta.text, delta.token_ids, delta.is_stopped) == ("sto", tuple(ids), False)


def test_a_stop_string_split_over_rounds_and_bytes_never_shows() -> None:
    stream = TextStream(PIECES, ["🙂🙂"])
    shown = [stream.add([byte_id(byte)]) for byte in "a🙂🙂".encode()]
    assert "".join(delta.text for delta in shown) == "a"
    assert [delta.is_stopped for delta in shown] == [False] * 8 + [True]


def test_half_a_character_at_the_end_is_one_replacement() -> None:
    delta = TextStream(PIECES, []).add([byte_id(0xF0), byte_id(0x9F)], is_last=True)
    assert delta.text == "\ufffd"


def test_accepted_count_is_kept_where_nothing_is_cut() -> None:
    assert TextStream(PIECES, ["zz"]).add(ids_of("abc"), accepted_count=2).accepted_count == 2


def test_nothing_can_be_added_after_the_end() -> None:
    stream = TextStream(PIECES, ["a"])
    stream.add(ids_of("a"))
    with pytest.raises(ValueError, match="ended"):
        stream.add(ids_of("b"))


@dataclass(frozen=True)
class CountingPieces(TokenPieces):
    """Counts how often a token's bytes are looked up."""

    looked_up: list[int] = field(default_factory=list)

    def __getitem__(self, token_id: int) -> bytes:
        self.looked_up.append(token_id)
        return self.pieces[token_id]


def test_each_token_is_decoded_once() -> None:
    looked_up: list[int] = []
    stream = TextStream(CountingPieces(PIECES.pieces, looked_up=looked_up), ["never"])
    ids = ids_of("hello world" * 50)
    for token_id in ids:
        stream.add([token_id])
    assert looked_up == ids


def test_leading_spaces_are_left_out_once() -> None:
    pieces = TokenPieces((b" ", b" a", b" b"), leading_spaces=1)
    assert TextStream(pieces, []).add([1, 2]).text == "a b"
    assert TextStream(pieces, []).add([0, 1, 2], is_last=True).text == " a b"


def test_a_stop_string_before_the_least_length_does_not_count() -> None:
    stream = TextStream(PIECES, ["bc"], min_tokens=4)
    first = stream.add(ids_of("abc"))
    assert not first.is_stopped
    second = stream.add(ids_of("xbcy"))
    assert second.is_stopped
    assert first.text + second.text == "abcx"
    assert len(second.token_ids) == 3
