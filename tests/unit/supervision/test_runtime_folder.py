import re
import stat
from pathlib import Path

import pytest

from outrider.supervision.runtime_folder import verify_endpoints


def test_the_socket_lies_in_a_private_folder_that_goes_away(tmp_path: Path) -> None:
    runtime = tmp_path if len(str(tmp_path)) < 60 else Path("/tmp")
    with verify_endpoints({"XDG_RUNTIME_DIR": str(runtime)}, 1, "linux") as (endpoint,):
        assert endpoint.startswith(f"ipc://{runtime}/outrider-")
        folder = Path(endpoint.removeprefix("ipc://")).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        Path(endpoint.removeprefix("ipc://")).touch()
    assert not folder.exists()


def test_a_path_too_long_for_a_socket_becomes_loopback(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with verify_endpoints({"XDG_RUNTIME_DIR": str(deep)}, 1, "linux") as (endpoint,):
        assert re.fullmatch(r"tcp://127.0.0.1:[1-9]\d*", endpoint)
    assert list(deep.iterdir()) == []


@pytest.mark.parametrize("runtime", ["", "/no/such/folder"])
def test_without_a_runtime_folder_the_temporary_one_serves(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    with verify_endpoints({"XDG_RUNTIME_DIR": runtime}, 1, "linux") as (endpoint,):
        assert endpoint.startswith("ipc:///tmp/outrider-")


def test_where_there_are_no_such_sockets_it_is_loopback() -> None:
    """Port 0 would be refused: it names no worker."""
    with verify_endpoints({}, 1, "win32") as (endpoint,):
        assert re.fullmatch(r"tcp://127.0.0.1:[1-9]\d*", endpoint)


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_each_worker_has_an_endpoint_of_its_own(platform: str) -> None:
    with verify_endpoints({}, 3, platform) as endpoints:
        assert len(set(endpoints)) == 3
