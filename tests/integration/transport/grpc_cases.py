"""Faults of gRPC calls that end with a status: FAULTS 39 to 46.

Where the runtime decides, and not as the list says, the case says so in its name.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from tests.integration.gateway_stage import prompt
from tests.integration.transport.ground import MARK, MAX_BYTES, MODELS_KEY, metadata
from tests.integration.transport.raw_http2 import DATA, END_STREAM, Fields, frame, message

SERVICE = "/outrider.v1.GenerationService/"
GENERATE, MODEL = f"{SERVICE}Generate", f"{SERVICE}GetModel"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
REQUEST = prompt(MARK).SerializeToString()
Metadata = Sequence[tuple[str, Any]]
ALLOWED = metadata()
Code = grpc.StatusCode


@dataclass(frozen=True)
class CallCase:
    """A call of a client that can say it.

    Args:
        name: Number in the list, and what it is.
        code: The verdict.
        message: What is sent; None: nothing is, and the call ends.
        method: In full.
        metadata: With it.
    """

    name: str
    code: grpc.StatusCode
    message: bytes | None = REQUEST
    method: str = GENERATE
    metadata: Metadata = ALLOWED


@dataclass(frozen=True)
class RawCase:
    """A call that no client would send.

    Args:
        name: Number in the list, and what it is.
        status: Number of the gRPC status; None: the stream is reset.
        frames: Behind the headers, on stream 1.
        fields: Header fields beside those that every call has.
    """

    name: str
    status: int | None
    frames: bytes = message(1, REQUEST)
    fields: Fields = ()


def _with(*pairs: tuple[str, Any]) -> Metadata:
    return (*metadata(), *pairs)


def _nested(depth: int) -> bytes:
    """Messages in one another, as an unknown group of so many levels."""
    return b"\x0b" * depth + b"\x0c" * depth


CALL_CASES = [
    CallCase("39 too large", Code.RESOURCE_EXHAUSTED, b"x" * (MAX_BYTES + 1)),
    CallCase("39 5 MiB", Code.RESOURCE_EXHAUSTED, b"x" * 5 * 2**20),
    CallCase("40 unknown method", Code.UNIMPLEMENTED, method=f"{SERVICE}Guess"),
    CallCase("40 unknown service", Code.UNIMPLEMENTED, method="/nobody.v1.Nothing/Do"),
    CallCase("40 no path", Code.UNIMPLEMENTED, method="/"),
    CallCase("41 noise", Code.INVALID_ARGUMENT, b"\xff\xff\xff"),
    CallCase("41 truncated", Code.INVALID_ARGUMENT, REQUEST[:-1]),
    CallCase("41 a field of no number", Code.INVALID_ARGUMENT, b"\x00\x00"),
    CallCase("41 a number too long", Code.INVALID_ARGUMENT, b"\x08" + b"\xff" * 11),
    CallCase("41 wrong wire type is unknown to protobuf", Code.INVALID_ARGUMENT, b"\x0d\0\0\0\0"),
    CallCase("41 depth 10,000", Code.INVALID_ARGUMENT, _nested(10_000)),
    CallCase("41 depth 10,000, no end", Code.INVALID_ARGUMENT, b"\x0b" * 10_000),
    CallCase("41 noise for GetModel", Code.INVALID_ARGUMENT, b"\xff\xff", MODEL),
    CallCase("42 no credentials", Code.UNAUTHENTICATED, metadata=()),
    CallCase("42 an unknown key", Code.UNAUTHENTICATED, metadata=metadata("or-nobody")),
    CallCase("42 another scheme", Code.UNAUTHENTICATED, metadata=(("authorization", "Basic x"),)),
    CallCase("42 may not generate", Code.PERMISSION_DENIED, metadata=metadata(MODELS_KEY)),
    CallCase("43 1 MiB", Code.RESOURCE_EXHAUSTED, metadata=_with(("x", "a" * 2**20))),
    CallCase("43 20 KB", Code.RESOURCE_EXHAUSTED, metadata=_with(("x", "a" * 20_000))),
    CallCase(
        "43 10,000 entries",
        Code.RESOURCE_EXHAUSTED,
        metadata=_with(*((f"x{number}", "a") for number in range(10_000))),
    ),
    CallCase("45 ends without a message", Code.INVALID_ARGUMENT, None),
    CallCase("45 GetModel without a message", Code.INVALID_ARGUMENT, None, MODEL),
    CallCase("46 reflection that is off", Code.UNIMPLEMENTED, b"", REFLECT),
]

GZIP = ((b"grpc-encoding", b"gzip"),)
BOMB = gzip.compress(bytes(50 * 2**20), 9)  # 50 KB
PADDED = gzip.compress(prompt("x" * 2 * MAX_BYTES).SerializeToString())

RAW_CASES = [
    RawCase("41 cut off in a message", 3, frame(DATA, b"\0\0\0\0\x64x", 1, END_STREAM)),
    RawCase(
        "41 of no known kind is read as a message", 3, frame(DATA, b"\x07\0\0\0\1x", 1, END_STREAM)
    ),
    RawCase("43 no base64 in -bin", 13, fields=((b"x-bin", b"!!!%%%"),)),
    RawCase("43 capitals in a name", 13, fields=((b"X-Up", b"a"),)),
    RawCase("43 a timeout that is none", 13, fields=((b"grpc-timeout", b"soon"),)),
    RawCase(
        "45 of two messages the first counts",
        0,
        message(1, REQUEST, ends=False) + message(1, REQUEST),
    ),
    RawCase("44 a bomb of 50 MiB", 8, message(1, BOMB, is_compressed=True), GZIP),
    RawCase("44 larger than it looks", 8, message(1, PADDED, is_compressed=True), GZIP),
    RawCase("44 no gzip", 13, message(1, b"x" * 99, is_compressed=True), GZIP),
    RawCase(
        "44 unknown encoding is INTERNAL to the runtime",
        13,
        message(1, REQUEST, is_compressed=True),
        ((b"grpc-encoding", b"zzz"),),
    ),
    RawCase("44 compressed, and nobody says how", 13, message(1, REQUEST, is_compressed=True)),
]
