"""Messages to frames and back.

A frame is `magic (4) | version (1) | CRC-32 of the rest (4) | Envelope (protobuf)`. One arrival may
carry many: what a turn of a worker has to say goes out as one multipart message, so that the other
side sees all of it before it acts. Nothing is ever unpickled, and nothing larger than the frame
itself is allocated before the checksum holds.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from outrider.protocol import messages as m
from outrider.protocol.decoding import DecodeLimits, FinishReason, Sampling
from outrider.protocol.errors import BadFrame, OutriderError
from outrider.protocol.token_tree import InvalidTree, TokenTree
from outrider.v1 import speculation_pb2 as pb

MAGIC = b"ORDR"
WIRE_VERSION = 1
MAX_FRAMES = 512
MAX_FRAME_BYTES = 4 * 2**20

_HEAD = struct.Struct("<4sBI")


def encode(*messages: m.Message) -> list[bytes]:
    """The frames of some messages, which then arrive together or not at all.

    Args:
        messages: At least one, and few enough for MAX_FRAMES.
    """
    return [_encode(message) for message in messages]


def decode(frames: Sequence[bytes]) -> list[m.Message]:
    """Reads the messages of one arrival.

    Raises:
        BadFrame: The frames are not messages of ours, or a field breaks its rule.
    """
    if not 1 <= len(frames) <= MAX_FRAMES:
        raise BadFrame(f"an arrival has 1 to {MAX_FRAMES} frames, got {len(frames)}")
    return [_decode(_envelope(frame)) for frame in frames]


def _encode(message: m.Message) -> bytes:
    name, build = _ENCODERS[type(message)]
    body = pb.Envelope(**{name: build(message)}).SerializeToString()
    return _HEAD.pack(MAGIC, WIRE_VERSION, zlib.crc32(body)) + body


def _decode(envelope: pb.Envelope) -> m.Message:
    name = envelope.WhichOneof("body")
    if name is None:
        raise BadFrame("the envelope is empty or of a newer kind")
    try:
        return _DECODERS[name](getattr(envelope, name))
    except InvalidTree as error:
        raise BadFrame(f"propose_tree: {error}") from error
    except (OutriderError, ValueError) as error:
        raise BadFrame(f"{name}: {error}") from error


def _envelope(frame: bytes) -> pb.Envelope:
    if not _HEAD.size <= len(frame) <= MAX_FRAME_BYTES:
        raise BadFrame(f"header frame of {len(frame)} bytes")
    magic, version, checksum = _HEAD.unpack_from(frame)
    if magic != MAGIC:
        raise BadFrame("wrong magic")
    if version != WIRE_VERSION:
        raise BadFrame(f"wire version {version}, this side speaks {WIRE_VERSION}")
    body = memoryview(frame)[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise BadFrame("wrong checksum")
    try:
        return pb.Envelope.FromString(bytes(body))
    except DecodeError as error:
        raise BadFrame("not an envelope") from error


def _put_hello(message: m.Hello) -> pb.Hello:
    return pb.Hello(
        protocol_version=message.protocol_version,
        boot_id=message.boot_id,
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        vocab_size=message.vocab_size,
    )


def _get_hello(proto: pb.Hello) -> m.Hello:
    return m.Hello(
        boot_id=proto.boot_id,
        protocol_version=proto.protocol_version,
        tokenizer_fingerprint=proto.tokenizer_fingerprint,
        vocab_size=proto.vocab_size,
    )


_TARGET_FIELDS = (
    "model",
    "target_fingerprint",
    "tokenizer_fingerprint",
    "vocab_size",
    "context_limit",
    "max_nodes",
    "max_depth",
)


def _put_hello_ack(message: m.HelloAck) -> pb.HelloAck:
    table = zip(message.cost_table.rows, message.cost_table.micros, strict=True)
    return pb.HelloAck(
        protocol_version=message.protocol_version,
        boot_id=message.boot_id,
        eos_token_ids=message.target.eos_token_ids,
        lease_ms=message.lease_ms,
        cost_table=[pb.CostPoint(rows=rows, micros=micros) for rows, micros in table],
        **{name: getattr(message.target, name) for name in _TARGET_FIELDS},
    )


def _get_hello_ack(proto: pb.HelloAck) -> m.HelloAck:
    return m.HelloAck(
        boot_id=proto.boot_id,
        protocol_version=proto.protocol_version,
        target=m.TargetDescription(
            eos_token_ids=tuple(proto.eos_token_ids),
            **{name: getattr(proto, name) for name in _TARGET_FIELDS},
        ),
        lease_ms=proto.lease_ms,
        cost_table=m.CostTable(
            tuple(point.rows for point in proto.cost_table),
            tuple(point.micros for point in proto.cost_table),
        ),
    )


def _put_open_session(message: m.OpenSession) -> pb.OpenSession:
    return pb.OpenSession(
        session_id=message.session_id,
        epoch=message.epoch,
        token_ids=message.token_ids,
        prompt_length=message.prompt_length,
        sampling=message.sampling.to_proto(),
        limits=message.limits.to_proto(),
        logprobs=message.wants_log_probs,
        traceparent=message.traceparent,
    )


def _get_open_session(proto: pb.OpenSession) -> m.OpenSession:
    return m.OpenSession(
        session_id=proto.session_id,
        epoch=proto.epoch,
        token_ids=tuple(proto.token_ids),
        prompt_length=proto.prompt_length,
        sampling=Sampling.from_proto(proto.sampling),
        limits=DecodeLimits.from_proto(proto.limits),
        wants_log_probs=proto.logprobs,
        traceparent=proto.traceparent,
    )


def _put_propose_tree(message: m.ProposeTree) -> pb.ProposeTree:
    return pb.ProposeTree(
        session_id=message.session_id,
        epoch=message.epoch,
        round=message.round,
        token_ids=message.tree.token_ids,
        parents=message.tree.parents,
    )


def _get_propose_tree(proto: pb.ProposeTree) -> m.ProposeTree:
    tree = TokenTree(tuple(proto.token_ids), tuple(proto.parents))
    return m.ProposeTree(proto.session_id, proto.epoch, proto.round, tree)


def _put_close_session(message: m.CloseSession) -> pb.CloseSession:
    return pb.CloseSession(session_id=message.session_id, epoch=message.epoch)


def _get_close_session(proto: pb.CloseSession) -> m.CloseSession:
    return m.CloseSession(proto.session_id, proto.epoch)


def _put_heartbeat(message: m.Heartbeat) -> pb.Heartbeat:
    return pb.Heartbeat(boot_id=message.boot_id, progress=message.progress)


def _get_heartbeat(proto: pb.Heartbeat) -> m.Heartbeat:
    return m.Heartbeat(proto.boot_id, proto.progress)


def _put_verdict(message: m.Verdict) -> pb.Verdict:
    return pb.Verdict(
        session_id=message.session_id,
        epoch=message.epoch,
        round=message.round,
        accepted_indices=message.accepted_indices,
        bonus_token=message.bonus_token,
        finish_reason=FinishReason.to_proto(message.finish_reason),
        log_probs=message.log_probs,
        queue_us=min(message.queue_us, m.MAX_UINT32),
        verify_us=min(message.verify_us, m.MAX_UINT32),
        batch_rows=message.batch_rows,
    )


def _get_verdict(proto: pb.Verdict) -> m.Verdict:
    return m.Verdict(
        session_id=proto.session_id,
        epoch=proto.epoch,
        round=proto.round,
        accepted_indices=tuple(proto.accepted_indices),
        bonus_token=proto.bonus_token if proto.HasField("bonus_token") else None,
        finish_reason=FinishReason.from_proto(proto.finish_reason),
        log_probs=tuple(proto.log_probs),
        queue_us=proto.queue_us,
        verify_us=proto.verify_us,
        batch_rows=proto.batch_rows,
    )


def _put_fault(message: m.Fault) -> pb.Fault:
    return pb.Fault(
        session_id=message.session_id,
        epoch=message.epoch,
        code=message.code.value,
        message=message.message,
    )


def _get_fault(proto: pb.Fault) -> m.Fault:
    return m.Fault(m.FaultCode(proto.code), proto.message, proto.session_id, proto.epoch)


def _put_go_away(message: m.GoAway) -> pb.GoAway:
    return pb.GoAway(reason=message.reason)


def _get_go_away(proto: pb.GoAway) -> m.GoAway:
    return m.GoAway(proto.reason)


_ENCODERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    m.Hello: ("hello", _put_hello),
    m.HelloAck: ("hello_ack", _put_hello_ack),
    m.OpenSession: ("open_session", _put_open_session),
    m.ProposeTree: ("propose_tree", _put_propose_tree),
    m.CloseSession: ("close_session", _put_close_session),
    m.Heartbeat: ("heartbeat", _put_heartbeat),
    m.Verdict: ("verdict", _put_verdict),
    m.Fault: ("fault", _put_fault),
    m.GoAway: ("go_away", _put_go_away),
}

_DECODERS: dict[str, Callable[[Any], m.Message]] = {
    "hello": _get_hello,
    "hello_ack": _get_hello_ack,
    "open_session": _get_open_session,
    "propose_tree": _get_propose_tree,
    "close_session": _get_close_session,
    "heartbeat": _get_heartbeat,
    "verdict": _get_verdict,
    "fault": _get_fault,
    "go_away": _get_go_away,
}
