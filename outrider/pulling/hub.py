"""A model from a hub, by name, into the hub client's own cache."""

from pathlib import Path
from typing import Final

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from outrider.pulling.errors import PullError

# Never pickled weights: nothing here unpickles.
PATTERNS: Final = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")


def fetch_hub_model(name: str) -> Path:
    """Downloads what is not in the client's cache yet.

    Args:
        name: Such as "org/name".

    Returns:
        The local folder.

    Raises:
        PullError: There is no such model, or no way to it.
    """
    try:
        return Path(snapshot_download(name, allow_patterns=list(PATTERNS)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()
        raise PullError(
            f"the model {name} cannot be fetched: {reason[0] if reason else type(error).__name__}"
        ) from error
