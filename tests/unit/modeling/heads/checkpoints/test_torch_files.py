from pathlib import Path

import pytest
import torch

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.torch_files import TorchFile


class _Anything:
    """Something that is no tensor."""


def test_tensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.arange(3)}, path)
    file = TorchFile(path)
    assert file.shapes == {"a": (3,)}
    assert file.read("a").tolist() == [0, 1, 2]


def test_the_older_layout_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.arange(3)}, path, _use_new_zipfile_serialization=False)
    assert TorchFile(path).read("a").tolist() == [0, 1, 2]


def test_of_a_training_checkpoint_the_head_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "training_state.pt"
    state = {"draft_state_dict": {"a": torch.ones(1)}, "optimizer_state_dict": {"lr": 0.1}}
    torch.save(state, path)
    assert TorchFile(path).shapes == {"a": (1,)}


def test_more_than_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": _Anything()}, path)
    with pytest.raises(BadCheckpoint, match="holds more than tensors"):
        TorchFile(path)


@pytest.mark.parametrize("state", [[torch.ones(1)], {}, {"a": 3}])
def test_other_contents_are_refused(state: object, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(state, path)
    with pytest.raises(BadCheckpoint, match=r"no named tensors|a is no tensor"):
        TorchFile(path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"")
    with pytest.raises(BadCheckpoint, match=r"a\.bin cannot be read"):
        TorchFile(path)
