"""One file from a URL into a folder, resumable: what has arrived stays in a `.part` file.

Refuses to know what the file is; whoever calls checks its hash. Takes http, https and file URLs.
"""

import errno
import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from outrider.pulling.errors import PullError, SourceRefused
from outrider.pulling.wheel_source import ConnectionSettings

TIMEOUT_SECONDS: Final = 60.0  # without a single byte
MAX_CUTS: Final = 5  # in a row, without a byte in between

_CHUNK_BYTES = 256 * 1024
_REFUSALS = frozenset({401, 403, 407, 451})

Progress = Callable[[int, int | None], None]


class Source(NamedTuple):
    """An open stream: where in the file it starts, and the file's whole size where known."""

    stream: BinaryIO
    offset: int
    size: int | None


OpenAt = Callable[[str, int], Source]


def download(
    url: str,
    part: Path,
    open_at: OpenAt,
    progress: Progress,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Fetches what `part` does not hold yet.

    Args:
        url: Where the file is.
        part: Grows to the whole file; what it holds already is believed to be its beginning.
        open_at: Opens the URL at an offset, or at 0 where the source cannot skip.
        progress: Called with the bytes there are and the whole size, or None where unknown.
        sleep: Waits some seconds before a cut connection is opened again.

    Raises:
        SourceRefused: The source says no, or breaks off MAX_CUTS times without giving a byte.
        PullError: The disk is full.
    """
    cuts, furthest = 0, _size(part)
    while True:
        try:
            if _fetch_rest(url, part, open_at, progress):
                return
            reason = "it ends early"
        except (http.client.HTTPException, OSError) as error:
            raise_if_disk(error, part)
            reason = str(error)
        cuts = 0 if _size(part) > furthest else cuts + 1
        furthest = max(furthest, _size(part))
        if cuts >= MAX_CUTS:
            host = urlsplit(url).hostname or "the file"
            raise SourceRefused(f"the download from {host} breaks off: {reason}")
        sleep(float(cuts))


def url_opener(settings: ConnectionSettings) -> OpenAt:
    """Opens URLs with the given proxy and certificates, else with the environment's.

    Args:
        settings: As pip has them.

    Returns:
        The function that `download` takes.
    """
    handlers: list[urllib.request.BaseHandler] = []
    if settings.proxy:
        proxies = {"http": settings.proxy, "https": settings.proxy}
        handlers.append(urllib.request.ProxyHandler(proxies))

    def open_at(url: str, offset: int) -> Source:
        if urlsplit(url).scheme == "file":
            return _open_file(url, offset)
        try:
            context = ssl.create_default_context(cafile=settings.certificates or None)
            if settings.client_certificate:
                context.load_cert_chain(settings.client_certificate)
        except (OSError, ssl.SSLError) as error:
            raise SourceRefused(f"pip's certificates cannot be read: {error}") from None
        opener = urllib.request.build_opener(
            *handlers, urllib.request.HTTPSHandler(context=context)
        )
        return _open_http(opener, url, offset)

    return open_at


def raise_if_disk(error: BaseException, path: Path) -> None:
    """Turns a full or read-only disk into words; any other error is left to the caller.

    Raises:
        PullError: The disk takes no more.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise PullError(
            f"the disk is full at {path.parent}; free some space, or set OUTRIDER_CACHE to a "
            "folder with 500 MB, and run it again: it goes on from here"
        ) from None
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        raise PullError(
            f"{path.parent} cannot be written; set OUTRIDER_CACHE to a folder that can"
        ) from None


def _fetch_rest(url: str, part: Path, open_at: OpenAt, progress: Progress) -> bool:
    """True where the whole file is there; False where the stream ended early."""
    source = open_at(url, _size(part))
    with source.stream, part.open("r+b" if part.exists() else "wb") as file:
        file.seek(source.offset)
        file.truncate()
        done = source.offset
        progress(done, source.size)
        while chunk := source.stream.read(_CHUNK_BYTES):
            file.write(chunk)
            done += len(chunk)
            progress(done, source.size)
    return source.size is None or done >= source.size


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _open_file(url: str, offset: int) -> Source:
    path = Path(urllib.request.url2pathname(urlsplit(url).path))
    try:
        stream = path.open("rb")
    except OSError as error:
        raise SourceRefused(f"{path} cannot be read: {error.strerror}") from None
    size = path.stat().st_size
    start = offset if offset <= size else 0
    stream.seek(start)
    return Source(stream, start, size)


def _open_http(opener: urllib.request.OpenerDirector, url: str, offset: int) -> Source:
    headers = {"User-Agent": "outrider-pull", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    try:
        answer = opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and offset:
            return _open_http(opener, url, 0)
        if error.code in _REFUSALS or error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise SourceRefused(f"{urlsplit(url).hostname} answers {error.code}") from None
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            raise SourceRefused(f"{urlsplit(url).hostname}: {error.reason}") from None
        raise
    length = answer.headers.get("Content-Length")
    remaining = int(length) if length else None
    start = 0
    if answer.status == http.HTTPStatus.PARTIAL_CONTENT:
        start = _range_start(answer.headers.get("Content-Range", ""))
    return Source(answer, start, None if remaining is None else start + remaining)


def _range_start(content_range: str) -> int:
    """First byte of `bytes 100-199/200`."""
    unit, _, rest = content_range.partition(" ")
    first = rest.partition("-")[0]
    if unit != "bytes" or not first.isdigit():
        raise SourceRefused(f"cannot resume: the server sent Content-Range {content_range!r}")
    return int(first)
