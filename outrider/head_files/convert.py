"""`outrider convert`: reads a head of any format, pickles included, and writes it in another.

Offline and explicit; takes no decisions beyond which file to read. Loading takes torch along.
"""

import sys
from dataclasses import replace
from pathlib import Path

from outrider.head_files.sources import open_any_head, open_target
from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead, TargetFiles
from outrider.modeling.heads.checkpoints.config_file import CONFIG_NAME
from outrider.modeling.heads.checkpoints.detection import FORMATS
from outrider.modeling.heads.checkpoints.load import fit_to_target, read_head
from outrider.modeling.heads.checkpoints.tensor_files import WEIGHTS_NAME
from outrider.modeling.heads.checkpoints.write import document_of, write_head
from outrider.pulling.terminal import TerminalReporter


def run_convert(source: Path, dest: Path, format_name: str, target: str, force: bool) -> int:
    """Runs the command.

    Args:
        source: Folder of a head, or a `.bin` or `.pt` file with `config.json` beside it.
        dest: Folder to write.
        format_name: Format to write.
        target: Folder of the head's target, or "embedded"; empty: none is needed.
        force: Files in `dest` are replaced.

    Returns:
        Exit status: 0, or 1 with one line on stderr that says why.
    """
    try:
        _convert(source, dest, format_name, target, force)
    except (BadCheckpoint, OSError) as error:
        sys.stderr.write(f"outrider: {error}\n")
        return 1
    return 0


def _convert(source: Path, dest: Path, format_name: str, target: str, force: bool) -> None:
    if format_name not in FORMATS:
        raise BadCheckpoint(f"--format {format_name}: must be one of {', '.join(FORMATS)}")
    occupied = [name for name in (CONFIG_NAME, WEIGHTS_NAME) if (dest / name).exists()]
    if occupied and not force:
        raise BadCheckpoint(f"{dest} holds {occupied[0]} already; --force replaces it")
    files = open_target(target) if target else None
    with TerminalReporter() as reporter:
        head = _read(source, files, reporter)
        document_of(head.config, format_name, head.notes)  # refuses before anything is written
        reporter.step(f"writing {dest}")
        write_head(head, format_name, dest)
    print(f"{dest}: {format_name}, was {head.format}")


def _read(source: Path, target: TargetFiles | None, reporter: TerminalReporter) -> LoadedHead:
    reporter.step(f"reading {source}")
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        reporter.progress(done, None)

    try:
        config, tensors = open_any_head(source)
        head = read_head(config, tensors, target.layer_count if target else None, advance)
        if target is None:
            return head
        fitted = fit_to_target(head, target)
    except BadCheckpoint as error:
        raise BadCheckpoint(f"head {source}: {error}") from None
    notes = replace(
        head.notes,
        verifier=head.notes.verifier or target.name,
        context_limit=target.context_limit or head.notes.context_limit,
    )
    return replace(fitted, notes=notes)
