import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from outrider.pulling.download import download, url_opener
from outrider.pulling.errors import SourceRefused
from outrider.pulling.wheel_source import ConnectionSettings

DATA = bytes(range(256)) * 8
DIRECT = ConnectionSettings()


def _ignore(done: int, size: int | None) -> None:
    pass


class _Index(BaseHTTPRequestHandler):
    """Serves DATA: /ranges honours Range, /whole ignores it, /<status> answers that."""

    def do_GET(self) -> None:
        kind = self.path.rpartition("/")[2]
        if kind.isdigit():
            self.send_error(int(kind))
            return
        wanted = self.headers.get("Range", "") if kind == "ranges" else ""
        start = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
        if start >= len(DATA):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(DATA) - start))
        self.end_headers()
        self.wfile.write(DATA[start:])

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Index)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("have", "first_offset"), [(0, 0), (1000, 1000), (5000, 0)])
def test_a_server_with_ranges_sends_only_the_rest(
    have: int, first_offset: int, index: str, tmp_path: Path
) -> None:
    part = tmp_path / "f.part"
    part.write_bytes((DATA * 3)[:have])
    seen: list[int] = []
    download(f"{index}/ranges", part, url_opener(DIRECT), lambda done, _: seen.append(done))
    assert part.read_bytes() == DATA
    assert seen[0] == first_offset


def test_a_server_without_ranges_starts_over(index: str, tmp_path: Path) -> None:
    part = tmp_path / "f.part"
    part.write_bytes(b"x" * 3000)
    download(f"{index}/whole", part, url_opener(DIRECT), _ignore)
    assert part.read_bytes() == DATA


@pytest.mark.parametrize("status", [401, 403, 404, 407])
def test_a_refusal_is_not_tried_again(status: int, index: str, tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match=rf"127\.0\.0\.1 answers {status}"):
        download(f"{index}/{status}", tmp_path / "f.part", url_opener(DIRECT), _ignore, _no_sleep)


def _no_sleep(seconds: float) -> None:
    raise AssertionError("nothing to wait for")


def test_a_server_in_trouble_is_tried_again_and_then_given_up(index: str, tmp_path: Path) -> None:
    pauses: list[float] = []
    with pytest.raises(SourceRefused, match=r"breaks off: .*503"):
        download(f"{index}/503", tmp_path / "f.part", url_opener(DIRECT), _ignore, pauses.append)
    assert pauses == [1.0, 2.0, 3.0, 4.0]
