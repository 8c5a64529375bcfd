from pathlib import Path

import pytest

from outrider.embedded_model import cache_folder, embedded_model_folder, resolve_model
from outrider.pulling.manifest import write_manifest
from outrider.settings import BadSettings


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"OUTRIDER_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "linux", Path("/a")),
        ({"OUTRIDER_CACHE": " ", "XDG_CACHE_HOME": "/b"}, "linux", Path("/b/outrider")),
        ({"XDG_CACHE_HOME": "not/absolute"}, "linux", Path("/home/u/.cache/outrider")),
        ({}, "darwin", Path("/home/u/.cache/outrider")),
        ({"LOCALAPPDATA": "/local"}, "win32", Path("/local/outrider")),
        ({"LOCALAPPDATA": "/local"}, "linux", Path("/home/u/.cache/outrider")),
    ],
)
def test_the_cache_is_where_the_user_or_the_platform_says(
    environ: dict[str, str], platform: str, expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    assert cache_folder(environ, platform) == expected


def test_a_tilde_in_outrider_cache_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    assert cache_folder({"OUTRIDER_CACHE": "~/models"}) == Path("/home/u/models")


@pytest.mark.parametrize("name", ["", "embedded", " embedded "])
def test_the_embedded_model_is_found_once_it_is_whole(name: str, tmp_path: Path) -> None:
    environ = {"OUTRIDER_CACHE": str(tmp_path)}
    folder = embedded_model_folder(environ)
    with pytest.raises(BadSettings, match="run `outrider pull`"):
        resolve_model(name, environ)

    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    write_manifest(folder, "test")
    assert resolve_model(name, environ) == folder

    (folder / "config.json").write_text("{")
    with pytest.raises(BadSettings, match=r"has 1 bytes, not 2.*run `outrider pull`"):
        resolve_model(name, environ)


def test_a_local_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"holds no config\.json"):
        resolve_model(str(tmp_path), {})
    (tmp_path / "config.json").write_text("{}")
    assert resolve_model(str(tmp_path), {}) == tmp_path


@pytest.mark.parametrize("name", ["org/some-model_1.5", "gpt2"])
def test_another_name_is_one_of_a_hub(name: str) -> None:
    assert resolve_model(name, {}) == name


@pytest.mark.parametrize(
    "name", ["./nowhere", "/no/such/folder", "a/b/c", "../no-such-folder", "a b"]
)
def test_a_path_that_does_not_exist_is_no_hub_name(name: str) -> None:
    with pytest.raises(BadSettings, match="no such folder"):
        resolve_model(name, {})


def test_a_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(BadSettings, match="name the folder"):
        resolve_model(str(tmp_path / "model.safetensors"), {})
