"""Faults of HTTP requests that are bytes out and one answer back: FAULTS 50 to 62.

Where the answer is not the list's, the case says so in its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.integration.transport.ground import KEY, MARK, MAX_BYTES, MODELS_KEY
from tests.integration.transport.raw_http import head, post
from tests.integration.transport.raw_http2 import PREFACE

GENERATE = "/generate"
BODY = b'{"prompt": "' + MARK.encode() + b'"}'
JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)


@dataclass(frozen=True)
class HttpCase:
    """One fault.

    Args:
        name: Number in the list, and what it is.
        parts: What is sent, piece by piece.
        status: Of the answer; 0: there is none.
        is_closed: True: the connection is closed behind it.
        param: That the error names.
        shown: Headers of the answer.
    """

    name: str
    parts: Sequence[bytes]
    status: int
    is_closed: bool = False
    param: str | None = None
    shown: Mapping[str, str] = field(default_factory=dict)


def body(name: str, data: bytes, param: str, status: int = 400) -> HttpCase:
    """A body of /generate."""
    return HttpCase(name, [post(GENERATE, data, key=KEY)], status, param=param)


def framed(name: str, framing: Sequence[str], data: bytes, status: int = 400) -> HttpCase:
    """A request whose end is told in a strange way."""
    request = head("POST", GENERATE, [JSON, *framing], key=KEY) + data
    return HttpCase(name, [request], status, is_closed=status != 200)


def kind(name: str, content_type: str, status: int = 415) -> HttpCase:
    """A content type."""
    lines = [content_type] if content_type else []
    request = head("POST", GENERATE, [*lines, f"Content-Length: {len(BODY)}"], key=KEY) + BODY
    return HttpCase(name, [request], status, is_closed=status != 200)


def asked(name: str, method: str, target: str, status: int, allow: str = "") -> HttpCase:
    """A method and a path."""
    shown = {"allow": allow} if allow else {}
    return HttpCase(name, [head(method, target, key=KEY)], status, shown=shown)


def let_in(name: str, line: str, status: int = 401) -> HttpCase:
    """What stands for a key."""
    shown = {"www-authenticate": "Bearer"} if status == 401 else {}
    request = post(GENERATE, BODY, [line] if line else [])
    return HttpCase(name, [request], status, shown=shown)


def malformed(name: str, request: bytes, status: int = 400) -> HttpCase:
    """Something that is hardly HTTP."""
    return HttpCase(name, [request], status, is_closed=True)


HTTP_CASES = [
    body("50 half an object", b"{", "body"),
    body("50 empty", b"", "body"),
    body("50 trailing bytes", BODY + b"x", "body"),
    body("50 a key twice", b'{"prompt": "x", "prompt": "x"}', "body"),
    body("50 depth 10,000", b"[" * 10_000, "body"),
    body("50 NaN", b'{"prompt": "x", "temperature": NaN}', "body"),
    body("50 1e400", b'{"prompt": "x", "temperature": 1e400}', "temperature"),
    body("50 a number of 50,000 digits", b'{"seed": ' + b"1" * 50_000 + b"}", "body"),
    body("50 null", b"null", "body"),
    body("50 a list", b"[]", "body"),
    body("50 UTF-16", '{"prompt": "x"}'.encode("utf-16"), "body"),
    body("50 a byte order mark", b"\xef\xbb\xbf" + BODY, "body"),
    framed("51 Content-Length", [f"Content-Length: {MAX_BYTES + 1}"], b" " * (MAX_BYTES + 1), 413),
    HttpCase(
        "51 10 GB to come",
        [
            head("POST", GENERATE, [JSON, "Content-Length: 10000000000"], key=KEY),
            *[b" " * 2**20] * 40,
        ],
        413,
        is_closed=True,
    ),
    HttpCase(
        "51 chunks without end",
        [
            head("POST", GENERATE, [JSON, CHUNKED], key=KEY),
            *[b"10000\r\n" + b" " * 2**16 + b"\r\n"] * 600,
        ],
        413,
        is_closed=True,
    ),
    kind("52 text", "Content-Type: text/plain"),
    kind("52 none", ""),
    kind("52 a form", "Content-Type: application/x-www-form-urlencoded"),
    kind("52 UTF-16", "Content-Type: application/json; charset=utf-16"),
    kind("52 an empty charset", "Content-Type: application/json; charset="),
    kind("52 in other letters is the same", "Content-Type: application/JSON; charset=UTF-8", 200),
    asked("53 GET", "GET", GENERATE, 405, allow="POST"),
    asked("53 DELETE", "DELETE", "/v1/models", 405, allow="GET"),
    asked("53 TRACE", "TRACE", "/health", 405, allow="GET"),
    asked("53 a method of nobody", "FOO", "/health", 405, allow="GET"),
    asked("53 CONNECT", "CONNECT", "x:1", 404),
    asked("53 unknown path", "GET", "/nowhere", 404),
    asked("53 two slashes", "POST", "//v1/completions", 404),
    asked("53 dots", "GET", "/v1/%2e%2e/health", 404),
    asked("53 dots to a file", "GET", "/playground/../../../etc/passwd", 404),
    asked("53 NUL", "GET", "/%00", 404),
    asked("53 a long path", "GET", "/" + "a" * 60_000, 404),
    framed("54 length and chunks", ["Content-Length: 5", CHUNKED], b"0\r\n\r\n"),
    framed("54 chunked, identity", ["Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"),
    framed("54 gzip, chunked", ["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n"),
    framed("54 length +5", ["Content-Length: +5"], BODY),
    framed("54 length -1", ["Content-Length: -1"], BODY),
    framed("54 length 5 5", ["Content-Length: 5 5"], BODY),
    framed("54 empty length", ["Content-Length: "], BODY),
    framed("54 spaces around a length are HTTP's", [f"Content-Length:   {len(BODY)} "], BODY, 200),
    framed("54 two lengths", ["Content-Length: 5", "Content-Length: 6"], BODY),
    framed("54 one length twice is HTTP's", [f"Content-Length: {len(BODY)}"] * 2, BODY, 200),
    framed("54 size of a chunk", [CHUNKED], b"zz\r\n" + BODY),
    framed("54 end of a chunk", [CHUNKED], b"%x\r\n" % len(BODY) + BODY + b"XX0\r\n\r\n"),
    framed("54 a long chunk extension", [CHUNKED], b"e;" + b"x" * 100_000, 431),
    malformed("54 bare CR", head("GET", "/health", ["X: a\rb"])),
    malformed("54 NUL in a header", head("GET", "/health", ["X: a\0b"])),
    malformed("54 a space before the colon", head("GET", "/health", ["X : a"])),
    malformed("54 a target that is not ASCII", head("GET", "/h\xe4lth")),
    malformed("54 noise", bytes(range(256)) * 10),
    malformed("49 TLS to a port without", CLIENT_HELLO),
    malformed("49 HTTP/2 to the HTTP port", PREFACE, 505),
    malformed("55 a header of 70,000 bytes", head("GET", "/health", ["X: " + "a" * 70_000]), 431),
    malformed("55 a header of 1 MB", head("GET", "/health", ["X: " + "a" * 10**6]), 431),
    malformed("55 101 headers", head("GET", "/health", [f"X{i}: a" for i in range(100)]), 431),
    malformed("55 no Host", b"GET /health HTTP/1.1\r\n\r\n"),
    malformed("55 two Hosts", head("GET", "/health", ["Host: y"])),
    let_in("57 no Authorization", ""),
    let_in("57 empty", "Authorization: "),
    let_in("57 no key", "Authorization: Bearer"),
    let_in("57 an empty key", "Authorization: Bearer  "),
    let_in("57 another scheme", f"Authorization: Basic {KEY}"),
    let_in("57 another key", f"Authorization: Bearer {KEY[:-1]}"),
    let_in("57 not ASCII", "Authorization: Bearer schl\xfcssel"),
    let_in("57 long", "Authorization: Bearer " + "a" * 60_000),
    let_in("57 for something else", f"Authorization: Bearer {MODELS_KEY}", 403),
    HttpCase(
        "58 asks before it sends too much",
        [
            head(
                "POST",
                GENERATE,
                [JSON, "Expect: 100-continue", f"Content-Length: {MAX_BYTES + 1}"],
                key=KEY,
            )
        ],
        413,
        is_closed=True,
    ),
    body("60 stream is no bool", b'{"prompt": "x", "stream": "yes"}', "stream"),
    HttpCase(
        "60 stream_options without stream",
        [
            post(
                "/v1/completions",
                b'{"model": "tiny", "prompt": "x", "stream_options": {"include_usage": true}}',
                key=KEY,
            )
        ],
        400,
        param="stream_options",
    ),
    HttpCase("61 Accept", [post(GENERATE, BODY, ["Accept: image/png"], key=KEY)], 200),
    HttpCase("61 Range", [post(GENERATE, BODY, ["Range: bytes=0-1"], key=KEY)], 200),
    HttpCase(
        "61 Upgrade to h2c is passed over",
        [
            post(
                GENERATE,
                BODY,
                ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA"],
                key=KEY,
            )
        ],
        200,
    ),
    HttpCase(
        "61 Upgrade to websocket is passed over",
        [
            head(
                "GET",
                "/health",
                [
                    "Connection: Upgrade",
                    "Upgrade: websocket",
                    "Sec-WebSocket-Version: 13",
                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                ],
            )
        ],
        200,
    ),
    HttpCase(
        "62 preflight",
        [
            head(
                "OPTIONS",
                GENERATE,
                ["Origin: http://elsewhere", "Access-Control-Request-Method: POST"],
            )
        ],
        405,
    ),
    HttpCase("62 Origin", [post(GENERATE, BODY, ["Origin: http://elsewhere"], key=KEY)], 200),
]
