"""A control group's limit counts, its caches do not."""

from pathlib import Path

import pytest
import torch

from verify_service.free_memory import control_group_rooms, free_bytes


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_version_2_with_a_limit_above_its_own(tmp_path: Path) -> None:
    group(
        tmp_path / "a" / "b",
        memory__max="max",
        memory__current=700,
        memory__stat="anon 400\ninactive_file 300",
    )
    group(tmp_path / "a", memory__max=1000, memory__current=900, memory__stat="inactive_file 250")
    (tmp_path / "me").write_text("0::/a/b\n")
    assert control_group_rooms(tmp_path, tmp_path / "me") == [350]


def test_version_1(tmp_path: Path) -> None:
    folder = tmp_path / "memory" / "pod"
    group(
        folder,
        memory__limit_in_bytes=5000,
        memory__usage_in_bytes=6000,
        memory__stat="total_inactive_file 100\ninactive_file 5",
    )
    (tmp_path / "me").write_text("9:cpu,memory:/pod\n3:cpuset:/pod\n0::/\n")
    assert control_group_rooms(tmp_path, tmp_path / "me") == [0], "never below 0"


def test_in_a_container_its_own_group_is_the_root(tmp_path: Path) -> None:
    group(tmp_path, memory__max=1000, memory__current=10, memory__stat="inactive_file 0")
    (tmp_path / "me").write_text("0::/kubepods/pod7\n")
    assert control_group_rooms(tmp_path, tmp_path / "me") == [990]


@pytest.mark.parametrize("lines", ["0::/nowhere\n", ""])
def test_without_a_limit_there_is_none(tmp_path: Path, lines: str) -> None:
    (tmp_path / "me").write_text(lines)
    assert control_group_rooms(tmp_path, tmp_path / "me") == []
    assert control_group_rooms(tmp_path, tmp_path / "missing") == []


def test_this_machine_has_some(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = free_bytes(torch.device("cpu"))
    assert free > 0
    group(tmp_path, memory__max=1000, memory__current=10, memory__stat="inactive_file 0")
    (tmp_path / "me").write_text("0::/\n")
    monkeypatch.setattr("verify_service.free_memory.GROUPS", tmp_path)
    monkeypatch.setattr("verify_service.free_memory.MEMBERSHIP", tmp_path / "me")
    assert free_bytes(torch.device("cpu")) == 990
    (tmp_path / "me").write_text("")  # a machine without control groups
    assert free_bytes(torch.device("cpu")) > 990
