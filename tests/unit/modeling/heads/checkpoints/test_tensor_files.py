import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.tensor_files import SafetensorsFolder


def _shards(folder: Path, **weight_map: str) -> Path:
    save_file({"a": torch.ones(2), "b": torch.zeros(3)}, folder / "one.safetensors")
    save_file({"c": torch.full((1,), 7)}, folder / "two.safetensors")
    text = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return folder


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    folder = SafetensorsFolder(_shards(tmp_path, a="one.safetensors", c="two.safetensors"))
    assert folder.shapes == {"a": (2,), "c": (1,)}
    assert folder.read("c").tolist() == [7]


def test_what_an_index_promises_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"a is not in two\.safetensors"):
        SafetensorsFolder(_shards(tmp_path, a="two.safetensors"))


@pytest.mark.parametrize("name", ["../two.safetensors", "/etc/hosts", 3])
def test_an_index_does_not_lead_out_of_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="outside its folder"):
        SafetensorsFolder(_shards(tmp_path, a=name))


def test_a_single_file_may_have_any_name(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "head.safetensors")
    assert SafetensorsFolder(tmp_path).shapes == {"a": (2,)}


def test_several_files_need_an_index(tmp_path: Path) -> None:
    (_shards(tmp_path) / "model.safetensors.index.json").unlink()
    with pytest.raises(BadCheckpoint, match="2 safetensors files and no"):
        SafetensorsFolder(tmp_path)


def test_pickles_are_not_read_but_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BadCheckpoint, match=r"pytorch_model\.bin may hold code.*outrider convert"):
        SafetensorsFolder(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors cannot be read"):
        SafetensorsFolder(tmp_path)


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    (_shards(tmp_path) / "model.safetensors.index.json").write_text("[]", encoding="utf-8")
    with pytest.raises(BadCheckpoint, match="is not an index"):
        SafetensorsFolder(tmp_path)
