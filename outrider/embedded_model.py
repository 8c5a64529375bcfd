"""The model that is served where nobody names another: what it is, where it lies, how it is found;
and the draft head that comes with it.

Refuses to know how it gets there (`outrider/pulling`). Never torch.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from outrider.pulling.manifest import missing_files
from outrider.settings import BadSettings

EMBEDDED: Final = "embedded"
MODEL_NAME: Final = "SmolLM2-135M-Instruct"
EMBEDDED_HEAD: Final = Path(__file__).parent / "embedded_head"

# Repository name on a model hub: one or two parts, no path.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def cache_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Where this user's downloads belong.

    Args:
        environ: OUTRIDER_CACHE wins; else the platform's own rule decides.
        platform: As `sys.platform`.

    Returns:
        The folder, which need not exist; absolute.
    """
    if own := environ.get("OUTRIDER_CACHE", "").strip():
        return Path(own).expanduser().absolute()
    if platform == "win32" and (local := environ.get("LOCALAPPDATA", "").strip()):
        return Path(local) / "outrider"
    # The XDG rule: a relative path in the variable is to be ignored.
    xdg = environ.get("XDG_CACHE_HOME", "").strip()
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "outrider"


def embedded_model_folder(environ: Mapping[str, str]) -> Path:
    """Folder of the embedded model, which `outrider pull` fills."""
    return cache_folder(environ) / "models" / MODEL_NAME


def resolve_model(
    name_or_path: str, environ: Mapping[str, str] = os.environ, flag: str = "--model"
) -> Path | str:
    """Finds what a setting that names a model means.

    Args:
        name_or_path: "embedded" or "" for the embedded model, a local folder, or a hub name
            such as "org/name".
        environ: Environment, for the cache.
        flag: The setting, for messages.

    Returns:
        A folder as a path, or a hub name as a string.

    Raises:
        BadSettings: The embedded model is not there, the folder does not exist or holds no
            model, or the text is none of the three.
    """
    text = name_or_path.strip()
    if text in ("", EMBEDDED):
        folder = embedded_model_folder(environ)
        if (missing := missing_files(folder)) is not None:
            raise BadSettings(
                f"the embedded model is not complete ({missing}); run `outrider pull`"
            )
        return folder
    folder = Path(text).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise BadSettings(f"{flag} {text}: the folder holds no config.json")
        return folder.absolute()
    if folder.exists():
        raise BadSettings(f"{flag} {text}: is a file; name the folder that holds the model")
    if _HUB_NAME.fullmatch(text):
        return text
    raise BadSettings(f"{flag} {text}: no such folder, and not a name such as org/name")
