"""Messages as envelopes of protobuf, and back. Knows no frames: those are the codec's."""

import zlib
from collections.abc import Callable
from typing import Any

from outrider.protocol import messages as m
from outrider.protocol.decoding import LOSSLESS, DecodeLimits, FinishReason, Sampling, TopLogProbs
from outrider.protocol.errors import BadFrame, InvalidField, OutriderError
from outrider.protocol.features import TensorType
from outrider.protocol.token_tree import InvalidTree, TokenTree
from outrider.v1 import speculation_pb2 as pb


def to_envelope(message: m.Message) -> pb.Envelope:
    """A message without its tensor."""
    name, build = _BUILDERS[type(message)]
    return pb.Envelope(**{name: build(message)})


def from_envelope(envelope: pb.Envelope, tensor: bytes | None = None) -> m.Message:
    """Reads a message.

    Args:
        envelope: What was sent.
        tensor: The frame behind it, for `FeatureRows` alone.

    Raises:
        BadFrame: The envelope is empty, or a field breaks its rule; the message names it.
    """
    name = envelope.WhichOneof("body")
    if name is None:
        raise BadFrame("the envelope is empty or of a newer kind")
    try:
        if tensor is not None:
            return _read_feature_rows(envelope.feature_rows, tensor)
        return _READERS[name](getattr(envelope, name))
    except InvalidTree as error:
        raise BadFrame(f"propose_tree: {error}") from error
    except (OutriderError, ValueError) as error:
        raise BadFrame(f"{name}: {error}") from error


def _build_hello(message: m.Hello) -> pb.Hello:
    return pb.Hello(
        protocol_version=message.protocol_version,
        boot_id=message.boot_id,
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        vocab_size=message.vocab_size,
        feature_layers=message.feature_layers,
    )


def _read_hello(proto: pb.Hello) -> m.Hello:
    return m.Hello(
        boot_id=proto.boot_id,
        protocol_version=proto.protocol_version,
        tokenizer_fingerprint=proto.tokenizer_fingerprint,
        vocab_size=proto.vocab_size,
        feature_layers=tuple(proto.feature_layers),
    )


_TARGET_FIELDS = (
    "model",
    "target_fingerprint",
    "tokenizer_fingerprint",
    "vocab_size",
    "context_limit",
    "max_nodes",
    "max_depth",
    "hidden_size",
    "layer_count",
)


def _build_hello_ack(message: m.HelloAck) -> pb.HelloAck:
    table = zip(message.cost_table.rows, message.cost_table.micros, strict=True)
    return pb.HelloAck(
        protocol_version=message.protocol_version,
        boot_id=message.boot_id,
        eos_token_ids=message.target.eos_token_ids,
        lease_ms=message.lease_ms,
        cost_table=[pb.CostPoint(rows=rows, micros=micros) for rows, micros in table],
        **{name: getattr(message.target, name) for name in _TARGET_FIELDS},
    )


def _read_hello_ack(proto: pb.HelloAck) -> m.HelloAck:
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


def _build_open_session(message: m.OpenSession) -> pb.OpenSession:
    return pb.OpenSession(
        session_id=message.session_id,
        epoch=message.epoch,
        token_ids=message.token_ids,
        prompt_length=message.prompt_length,
        sampling=message.sampling.to_proto(),
        limits=message.limits.to_proto(),
        logprobs=message.wants_log_probs,
        top_logprobs=message.top_log_prob_count,
        cache_salt=message.cache_salt,
        validation_threshold=(
            None if message.validation_threshold == LOSSLESS else message.validation_threshold
        ),
        traceparent=message.traceparent,
        features_from=message.features_from,
    )


def _read_open_session(proto: pb.OpenSession) -> m.OpenSession:
    return m.OpenSession(
        session_id=proto.session_id,
        epoch=proto.epoch,
        token_ids=tuple(proto.token_ids),
        prompt_length=proto.prompt_length,
        sampling=Sampling.from_proto(proto.sampling),
        limits=DecodeLimits.from_proto(proto.limits),
        wants_log_probs=proto.logprobs,
        top_log_prob_count=proto.top_logprobs,
        cache_salt=proto.cache_salt,
        validation_threshold=(
            proto.validation_threshold if proto.HasField("validation_threshold") else LOSSLESS
        ),
        traceparent=proto.traceparent,
        features_from=proto.features_from if proto.HasField("features_from") else None,
    )


def _build_propose_tree(message: m.ProposeTree) -> pb.ProposeTree:
    return pb.ProposeTree(
        session_id=message.session_id,
        epoch=message.epoch,
        round=message.round,
        token_ids=message.tree.token_ids,
        parents=message.tree.parents,
    )


def _read_propose_tree(proto: pb.ProposeTree) -> m.ProposeTree:
    tree = TokenTree(tuple(proto.token_ids), tuple(proto.parents))
    return m.ProposeTree(proto.session_id, proto.epoch, proto.round, tree)


def _build_close_session(message: m.CloseSession) -> pb.CloseSession:
    return pb.CloseSession(session_id=message.session_id, epoch=message.epoch)


def _read_close_session(proto: pb.CloseSession) -> m.CloseSession:
    return m.CloseSession(proto.session_id, proto.epoch)


def _build_heartbeat(message: m.Heartbeat) -> pb.Heartbeat:
    return pb.Heartbeat(boot_id=message.boot_id, progress=message.progress, busy_ms=message.busy_ms)


def _read_heartbeat(proto: pb.Heartbeat) -> m.Heartbeat:
    return m.Heartbeat(proto.boot_id, proto.progress, min(proto.busy_ms, m.MAX_BUSY_MS))


def _build_verdict(message: m.Verdict) -> pb.Verdict:
    return pb.Verdict(
        session_id=message.session_id,
        epoch=message.epoch,
        round=message.round,
        accepted_indices=message.accepted_indices,
        bonus_token=message.bonus_token,
        finish_reason=FinishReason.to_proto(message.finish_reason),
        log_probs=message.log_probs,
        top_log_probs=[one.to_proto() for one in message.top_log_probs],
        queue_us=min(message.queue_us, m.MAX_UINT32),
        verify_us=min(message.verify_us, m.MAX_UINT32),
        batch_rows=message.batch_rows,
        batch_trees=message.batch_trees,
        batch_nodes=message.batch_nodes,
    )


def _read_verdict(proto: pb.Verdict) -> m.Verdict:
    return m.Verdict(
        session_id=proto.session_id,
        epoch=proto.epoch,
        round=proto.round,
        accepted_indices=tuple(proto.accepted_indices),
        bonus_token=proto.bonus_token if proto.HasField("bonus_token") else None,
        finish_reason=FinishReason.from_proto(proto.finish_reason),
        log_probs=tuple(proto.log_probs),
        top_log_probs=tuple(TopLogProbs.from_proto(one) for one in proto.top_log_probs),
        queue_us=proto.queue_us,
        verify_us=proto.verify_us,
        batch_rows=proto.batch_rows,
        batch_trees=proto.batch_trees,
        batch_nodes=proto.batch_nodes,
    )


def _build_feature_rows(message: m.FeatureRows) -> pb.FeatureRows:
    return pb.FeatureRows(
        session_id=message.session_id,
        epoch=message.epoch,
        first_row=message.first_row,
        row_count=message.row_count,
        row_size=message.row_size,
        tensor_type=message.tensor_type.value,
        checksum=zlib.crc32(message.data),
    )


def _read_feature_rows(proto: pb.FeatureRows, tensor: bytes) -> m.FeatureRows:
    if zlib.crc32(tensor) != proto.checksum:
        raise InvalidField("checksum", "is not that of the tensor frame")
    try:
        tensor_type = TensorType(proto.tensor_type)
    except ValueError as error:
        raise InvalidField("tensor_type", f"{proto.tensor_type} is not known here") from error
    return m.FeatureRows(
        session_id=proto.session_id,
        epoch=proto.epoch,
        first_row=proto.first_row,
        row_count=proto.row_count,
        row_size=proto.row_size,
        tensor_type=tensor_type,
        data=tensor,
    )


def _build_fault(message: m.Fault) -> pb.Fault:
    return pb.Fault(
        session_id=message.session_id,
        epoch=message.epoch,
        code=message.code.value,
        message=message.message,
    )


def _read_fault(proto: pb.Fault) -> m.Fault:
    return m.Fault(m.FaultCode(proto.code), proto.message, proto.session_id, proto.epoch)


def _build_go_away(message: m.GoAway) -> pb.GoAway:
    return pb.GoAway(reason=message.reason)


def _read_go_away(proto: pb.GoAway) -> m.GoAway:
    return m.GoAway(proto.reason)


_BUILDERS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    m.Hello: ("hello", _build_hello),
    m.HelloAck: ("hello_ack", _build_hello_ack),
    m.OpenSession: ("open_session", _build_open_session),
    m.ProposeTree: ("propose_tree", _build_propose_tree),
    m.CloseSession: ("close_session", _build_close_session),
    m.Heartbeat: ("heartbeat", _build_heartbeat),
    m.Verdict: ("verdict", _build_verdict),
    m.FeatureRows: ("feature_rows", _build_feature_rows),
    m.Fault: ("fault", _build_fault),
    m.GoAway: ("go_away", _build_go_away),
}

_READERS: dict[str, Callable[[Any], m.Message]] = {
    "hello": _read_hello,
    "hello_ack": _read_hello_ack,
    "open_session": _read_open_session,
    "propose_tree": _read_propose_tree,
    "close_session": _read_close_session,
    "heartbeat": _read_heartbeat,
    "verdict": _read_verdict,
    "fault": _read_fault,
    "go_away": _read_go_away,
}
