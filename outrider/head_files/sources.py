"""Opens what a user named: a head's folder or file, a target's folder.

The only place that reaches for pickles, and only on behalf of `outrider convert`.
"""

import os
from pathlib import Path

from outrider.embedded_model import resolve_model
from outrider.modeling.heads.checkpoints import BadCheckpoint, TargetFiles
from outrider.modeling.heads.checkpoints.config_file import ConfigFile, read_config_file
from outrider.modeling.heads.checkpoints.tensor_files import SafetensorsFolder, TensorSource
from outrider.modeling.heads.checkpoints.torch_files import PICKLE_NAMES, TorchFile
from outrider.settings import BadSettings


def open_target(name: str) -> TargetFiles:
    """A target's files.

    Args:
        name: A folder, or "embedded".

    Raises:
        BadCheckpoint: There is no such folder, or it holds no model.
    """
    try:
        folder = resolve_model(name, os.environ)
    except BadSettings as error:
        raise BadCheckpoint(str(error)) from None
    if isinstance(folder, str):
        raise BadCheckpoint(f"--target {name}: name the folder that holds the model")
    return TargetFiles(folder)


def open_any_head(path: Path) -> tuple[ConfigFile, TensorSource]:
    """A head's configuration and tensors, from safetensors or, failing that, from a pickle.

    Args:
        path: A folder, or a `.bin` or `.pt` file with `config.json` beside it.

    Raises:
        BadCheckpoint: Something is missing or cannot be read.
    """
    if path.is_file():
        return read_config_file(path.parent), TorchFile(path)
    if not path.is_dir():
        raise BadCheckpoint("there is no such folder or file")
    config = read_config_file(path)
    pickles = [path / name for name in PICKLE_NAMES if (path / name).is_file()]
    if pickles and not any(path.glob("*.safetensors")):
        return config, TorchFile(pickles[0])
    return config, SafetensorsFolder(path)
