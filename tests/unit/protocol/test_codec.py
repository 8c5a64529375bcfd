"""The wire form: every message survives it, and nothing else does (FAULTS 63-69)."""

import pickle
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.protocol import messages as m
from outrider.protocol.codec import MAX_FRAME_BYTES, decode, encode
from outrider.protocol.decoding import DecodeLimits, FinishReason, Sampling
from outrider.protocol.errors import BadFrame
from outrider.protocol.token_tree import TokenTree
from outrider.v1 import speculation_pb2 as pb

SESSION = bytes(range(16))
TARGET = m.TargetDescription("tiny", "aa", "bb", 512, 64, (2, 3), 32, 8)
MESSAGES: list[m.Message] = [
    m.Hello(b"boot", tokenizer_fingerprint="bb", vocab_size=512),
    m.HelloAck(b"boot", TARGET, 5000, m.CostTable((1, 4), (10, 12))),
    m.OpenSession(
        SESSION,
        3,
        (5, 6, 7),
        2,
        Sampling(0.7, 0.9, 40, 0.05, 2**64 - 1),
        DecodeLimits(9, (1, 2), ignore_eos=True),
        wants_log_probs=True,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
    m.ProposeTree(SESSION, 3, 1, TokenTree((7, 8, 9, 8), (-1, 0, 0, 2))),
    m.CloseSession(SESSION, 3),
    m.Heartbeat(b"boot", 7),
    m.Verdict(SESSION, 3, 1, (2, 3), 11, FinishReason.STOP, (-0.5, -1.5, -2.5), 10, 20, 4),
    m.Verdict(SESSION, 3, 1, (2, 3), None, FinishReason.LENGTH),
    m.Verdict(SESSION, 3, 1, (), 0),
    m.Fault(m.FaultCode.SESSION_GONE, "gone", SESSION, 3),
    m.GoAway("upgrade"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives(message):
    assert decode(encode(message)) == [message]


def test_messages_that_are_sent_together_arrive_in_order():
    assert decode(encode(*MESSAGES)) == MESSAGES


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_flipped_bit_is_noticed(message):
    (frame,) = encode(message)
    for bit in range(len(frame) * 8):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadFrame):
            decode([bytes(broken)])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_truncation_is_noticed(message):
    (frame,) = encode(message)
    for length in range(len(frame)):
        with pytest.raises(BadFrame):
            decode([frame[:length]])


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_garbage_is_a_bad_frame_and_nothing_else(frames):
    with pytest.raises(BadFrame):
        decode(frames)


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_garbage_behind_a_good_head_never_crashes(body):
    frame = b"ORDR\x01" + zlib.crc32(body).to_bytes(4, "little") + body
    try:
        decode([frame])
    except BadFrame:
        return


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b""] * 1000,
        [pickle.dumps({"a": 1})],
        [b"ORDR" + b"\x00" * (MAX_FRAME_BYTES + 1)],
        [*encode(MESSAGES[0]), b"something else"],
    ],
    ids=["none", "empty", "thousand", "pickle", "huge", "extra"],
)
def test_hostile_frames(frames):
    with pytest.raises(BadFrame):
        decode(frames)


def _frame(envelope: pb.Envelope) -> list[bytes]:
    body = envelope.SerializeToString()
    return [b"ORDR\x01" + zlib.crc32(body).to_bytes(4, "little") + body]


@pytest.mark.parametrize(
    ("envelope", "words"),
    [
        (pb.Envelope(), "empty"),
        (pb.Envelope(propose_tree=pb.ProposeTree(session_id=SESSION)), "root"),
        (
            pb.Envelope(
                propose_tree=pb.ProposeTree(session_id=SESSION, token_ids=[1, 2], parents=[-1, 1])
            ),
            "parents",
        ),
        (pb.Envelope(propose_tree=pb.ProposeTree(token_ids=[1], parents=[-1])), "session_id"),
        (
            pb.Envelope(
                open_session=pb.OpenSession(session_id=SESSION, token_ids=[1], prompt_length=2)
            ),
            "max_new_tokens|prompt_length",
        ),
        (pb.Envelope(fault=pb.Fault(code=99)), "99"),  # type: ignore[arg-type]
        (pb.Envelope(hello_ack=pb.HelloAck()), "cost_table"),
    ],
)
def test_a_well_formed_message_with_a_bad_field_names_it(envelope, words):
    with pytest.raises(BadFrame, match=words):
        decode(_frame(envelope))
