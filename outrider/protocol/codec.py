"""Messages to frames and back.

A frame is `magic (4) | version (1) | CRC-32 of the rest (4) | Envelope (protobuf)`. The envelope of
`FeatureRows` is followed by one frame more, the bare tensor, whose CRC-32 the envelope holds. One
arrival may carry many messages: what a turn of a worker has to say goes out as one multipart
message, so that the other side sees all of it before it acts. Nothing is ever unpickled, and
nothing larger than the frame itself is allocated before the checksum holds.
"""

import struct
import zlib
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from outrider.protocol.envelopes import from_envelope, to_envelope
from outrider.protocol.errors import BadFrame
from outrider.protocol.features import MAX_TENSOR_BYTES
from outrider.protocol.messages import FeatureRows, Message
from outrider.v1 import speculation_pb2 as pb

MAGIC = b"ORDR"
WIRE_VERSION = 1
MAX_FRAMES = 512
MAX_FRAME_BYTES = MAX_TENSOR_BYTES

_HEAD = struct.Struct("<4sBI")


def frame_count(message: Message) -> int:
    """Frames that a message takes."""
    return 2 if isinstance(message, FeatureRows) else 1


def encode(*messages: Message) -> list[bytes]:
    """The frames of some messages, which then arrive together or not at all.

    Args:
        messages: At least one, and few enough for MAX_FRAMES.
    """
    frames: list[bytes] = []
    for message in messages:
        body = to_envelope(message).SerializeToString()
        frames.append(_HEAD.pack(MAGIC, WIRE_VERSION, zlib.crc32(body)) + body)
        if isinstance(message, FeatureRows):
            frames.append(message.data)
    return frames


def decode(frames: Sequence[bytes]) -> list[Message]:
    """Reads the messages of one arrival.

    Raises:
        BadFrame: The frames are not messages of ours, or a field breaks its rule.
    """
    if not 1 <= len(frames) <= MAX_FRAMES:
        raise BadFrame(f"an arrival has 1 to {MAX_FRAMES} frames, got {len(frames)}")
    messages: list[Message] = []
    remaining = iter(frames)
    for frame in remaining:
        envelope = _envelope(frame)
        tensor = None
        if envelope.HasField("feature_rows"):
            tensor = _tensor(next(remaining, None))
        messages.append(from_envelope(envelope, tensor))
    return messages


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


def _tensor(frame: bytes | None) -> bytes:
    if frame is None:
        raise BadFrame("feature_rows: its tensor frame is missing")
    if len(frame) > MAX_TENSOR_BYTES:
        raise BadFrame(f"feature_rows: tensor frame of {len(frame)} bytes")
    return frame
