"""The wire form: every message survives it, and nothing else does (FAULTS 63-69)."""

import pickle
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.protocol import messages as m
from outrider.protocol.codec import MAX_FRAME_BYTES, decode, encode
from outrider.protocol.decoding import DecodeLimits, FinishReason, Sampling, TopLogProbs
from outrider.protocol.errors import BadFrame
from outrider.protocol.features import MAX_TENSOR_BYTES, TensorType
from outrider.protocol.grammar import Grammar, GrammarKind
from outrider.protocol.logit_rules import LogitRules
from outrider.protocol.token_tree import TokenTree
from outrider.v1 import speculation_pb2 as pb

SESSION = bytes(range(16))
TARGET = m.TargetDescription("tiny", "aa", "bb", 512, 64, (2, 3), 32, 8)
ROWS = m.FeatureRows(SESSION, 3, 5, 2, 3, TensorType.BFLOAT16, bytes(range(12)))
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
    m.Heartbeat(b"boot", 7, busy_ms=m.MAX_BUSY_MS),
    m.Verdict(SESSION, 3, 1, (2, 3), 11, FinishReason.STOP, (-0.5, -1.5, -2.5), 10, 20, 4),
    m.Verdict(SESSION, 3, 1, (2, 3), None, FinishReason.LENGTH),
    m.Verdict(SESSION, 3, 1, (), 0),
    m.Fault(m.FaultCode.SESSION_GONE, "gone", SESSION, 3),
    m.GoAway("upgrade"),
    m.Hello(b"boot", feature_layers=(0, 2, 30, -1)),
    m.HelloAck(
        b"boot", replace(TARGET, hidden_size=576, layer_count=30), 5000, m.CostTable((1,), (10,))
    ),
    m.OpenSession(SESSION, 3, (5, 6), 2, Sampling(), DecodeLimits(9), features_from=0),
    ROWS,
    m.OpenSession(
        SESSION,
        3,
        (5, 6),
        2,
        Sampling(rules=LogitRules(1.5, -0.5, 0.25, ((3, -1.5),), (3, 9), (9,))),
        DecodeLimits(9, min_new_tokens=4),
        top_log_prob_count=20,
        cache_salt=b"tenant",
    ),
    m.Verdict(
        SESSION,
        3,
        1,
        (),
        9,
        top_log_probs=(TopLogProbs((9, 4), (-0.5, -1.5)),),
    ),
    m.OpenSession(
        SESSION,
        3,
        (5, 6),
        2,
        Sampling(grammar=Grammar(GrammarKind.REGEX, "[0-9]+")),
        DecodeLimits(9),
    ),
    m.OpenSession(SESSION, 3, (5, 6), 2, Sampling(), DecodeLimits(9), validation_threshold=0.25),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives(message):
    assert decode(encode(message)) == [message]


def test_messages_that_are_sent_together_arrive_in_order():
    assert decode(encode(*MESSAGES)) == MESSAGES


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_flipped_bit_is_noticed(message):
    frames = encode(message)
    for place, frame in enumerate(frames):
        for bit in range(len(frame) * 8):
            broken = bytearray(frame)
            broken[bit // 8] ^= 1 << bit % 8
            with pytest.raises(BadFrame):
                decode([*frames[:place], bytes(broken), *frames[place + 1 :]])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_truncation_is_noticed(message):
    frames = encode(message)
    for place, frame in enumerate(frames):
        for length in range(len(frame)):
            with pytest.raises(BadFrame):
                decode([*frames[:place], frame[:length], *frames[place + 1 :]])


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
        encode(ROWS)[:1],
        encode(ROWS)[1:],
        [*encode(ROWS), b"one tensor more"],
        [encode(ROWS)[0], *encode(MESSAGES[0])],
        [*encode(MESSAGES[0]), ROWS.data],
        [encode(ROWS)[0], b"\x00" * (MAX_TENSOR_BYTES + 1)],
    ],
    ids=[
        "none",
        "empty",
        "thousand",
        "pickle",
        "huge",
        "extra",
        "no tensor",
        "tensor alone",
        "two tensors",
        "message for a tensor",
        "tensor for a message",
        "huge tensor",
    ],
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
        (pb.Envelope(hello=pb.Hello(feature_layers=[-2])), r"feature_layers\[0\]"),
        (pb.Envelope(hello=pb.Hello(feature_layers=[3, 2])), r"feature_layers\[1\]"),
        (
            pb.Envelope(
                open_session=pb.OpenSession(
                    session_id=SESSION,
                    token_ids=[1],
                    prompt_length=1,
                    features_from=1,
                    limits=DecodeLimits(1).to_proto(),
                )
            ),
            "features_from",
        ),
    ],
)
def test_a_well_formed_message_with_a_bad_field_names_it(envelope, words):
    with pytest.raises(BadFrame, match=words):
        decode(_frame(envelope))


@pytest.mark.parametrize(
    ("fields", "tensor", "words"),
    [
        ({"tensor_type": 0}, ROWS.data, "tensor_type: 0"),
        ({"tensor_type": 9}, ROWS.data, "tensor_type: 9"),
        ({"row_count": 0}, b"", "row_count"),
        ({"row_size": 0}, b"", "row_size"),
        ({"row_count": 3}, ROWS.data, "data: 12 bytes, the other fields say 18"),
        ({"row_size": 2}, ROWS.data, "data: 12 bytes, the other fields say 8"),
        ({"tensor_type": 1}, ROWS.data, "data: 12 bytes, the other fields say 24"),
        ({"row_count": 2**32 - 1, "row_size": 2**32 - 1}, ROWS.data, "data: .* at most 4194304"),
        ({"session_id": b"short"}, ROWS.data, "session_id"),
        ({"checksum": 1}, ROWS.data, "checksum"),
    ],
    ids=str,
)
def test_a_bad_header_of_a_tensor_names_its_field(fields, tensor, words):
    good = {
        "session_id": SESSION, "epoch": 3, "first_row": 5, "row_count": 2, "row_size": 3,
        "tensor_type": pb.TENSOR_TYPE_BFLOAT16, "checksum": zlib.crc32(tensor),
    }  # fmt: skip
    proto = pb.FeatureRows(**{**good, **fields})
    with pytest.raises(BadFrame, match=f"feature_rows: {words}"):
        decode([*_frame(pb.Envelope(feature_rows=proto)), tensor])


def test_the_largest_tensor_fits_a_frame():
    rows = m.FeatureRows(SESSION, 0, 0, 1, 2**20, TensorType.FLOAT32, bytes(MAX_TENSOR_BYTES))
    frames = encode(rows)
    assert max(map(len, frames)) <= MAX_FRAME_BYTES
    assert decode(frames) == [rows]
