"""`outrider keys --cluster`: fills the folder and says what is in it."""

from datetime import datetime
from pathlib import Path

from rich.table import Table

from outrider.cluster_keys.plan import FILES, check_host_name
from outrider.evaluation.terminal import open_console
from outrider.settings import BadSettings


def run_cluster_keys(folder: Path, draft_name: str, now: datetime) -> None:
    """Makes what is missing and prints a table; a new API key is shown once.

    Args:
        folder: Of the keys.
        draft_name: Host name in the draft workers' certificate.
        now: Time of day, with its zone.

    Raises:
        BadSettings: The extra is not installed, the name is none, or a file cannot be used.
    """
    try:
        from outrider.cluster_keys.folder import KeyFolder  # noqa: PLC0415  needs the extra
    except ImportError:
        text = "--cluster makes certificates with `cryptography`: pip install 'outrider[keys]'"
        raise BadSettings(text) from None
    try:
        check_host_name(draft_name)
    except ValueError as error:
        raise BadSettings(f"--draft-name: {error}") from error
    made = KeyFolder(folder, now).fill(draft_name)
    table = Table("file", "what it is", "who needs it", "now", title=str(folder))
    for one in FILES:
        state = "made" if one.path in made.paths else "was there"
        if not (folder / one.path).exists():
            state = "kept elsewhere"
        if one.path in made.ends:
            state += f", until {made.ends[one.path]:%Y-%m-%d}"
        purpose = one.purpose + (" (secret)" if one.is_secret else "")
        table.add_row(one.path, purpose, one.needed_by, state)
    console = open_console()
    console.print(table)
    if made.api_key:
        console.print(f"The first API key; it is not kept anywhere:\n{made.api_key}", markup=False)
    console.print(
        "A certificate is renewed by removing it and running this again with its key and "
        "tls/ca-key.pem in place.",
        markup=False,
    )
