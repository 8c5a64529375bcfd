"""`outrider inspect`: says what a head is, what it fits, and whether it knows its target.

Shows only; what is found out is `inspection.py`'s.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from transformers import logging

from outrider.canary import CanaryResult, UselessHead, check
from outrider.evaluation.terminal import open_console
from outrider.head_files.canary_run import CanaryTarget
from outrider.head_files.inspection import AS_READ, Inspection, compare_readings, inspect_head
from outrider.head_files.sources import open_target
from outrider.modeling.heads.checkpoints import BadCheckpoint, TargetFiles
from outrider.pulling.terminal import TerminalReporter

_NOTABLE: Final = 0.04  # how much better another reading must be, both steps together, to be named


def run_inspect(folder: Path, target_name: str, as_json: bool) -> int:
    """Runs the command.

    Args:
        folder: Of the head.
        target_name: Folder of its target, or "embedded"; empty: the canary does not run.
        as_json: One JSON document instead of tables.

    Returns:
        Exit status: 0, or 1 with one line on stderr that says why.
    """
    try:
        target = open_target(target_name) if target_name else None
        found = inspect_head(folder, target)
        figures = _canary(found, target) if target else {}
        _show(found, target, figures, as_json)
        if figures:
            check(figures[AS_READ])
    except (BadCheckpoint, UselessHead, OSError, ValueError) as error:
        sys.stderr.write(f"outrider: {error}\n")
        return 1
    return 0


def better_reading(figures: Mapping[str, CanaryResult]) -> str | None:
    """The reading that does notably better than the one that was read, if any does."""
    sums = {name: result.first_step + result.second_step for name, result in figures.items()}
    best = max(sums, key=lambda name: sums[name])
    return best if sums[best] > sums[AS_READ] + _NOTABLE else None


def _canary(found: Inspection, target: TargetFiles) -> dict[str, CanaryResult]:
    library_log: Any = logging
    library_log.disable_progress_bar()  # its bar and ours would write over each other
    with TerminalReporter() as reporter:
        reporter.step(f"loading {target.folder}")
        loaded = CanaryTarget(target.folder)
        reporter.step("asking the target, and the head after it")
        return compare_readings(found.head, loaded, target.layer_count)


def _show(
    found: Inspection,
    target: TargetFiles | None,
    figures: Mapping[str, CanaryResult],
    as_json: bool,
) -> None:
    if as_json:
        print(json.dumps(document_of(found, target, figures), indent=2))
        return
    console = open_console()
    console.print(_head_table(found, target))
    if figures:
        _show_canary(console, figures)


def document_of(
    found: Inspection, target: TargetFiles | None, figures: Mapping[str, CanaryResult]
) -> dict[str, Any]:
    """All that was found, as JSON values."""
    head = found.head
    document: dict[str, Any] = {
        "format": head.format,
        "verifier": head.notes.verifier,
        "dtype": head.notes.dtype,
        "config": asdict(head.config),
        "layers": found.layers,
        "options": list(found.options),
        "parameters": found.parameter_count,
        "bytes": found.byte_count,
    }
    if target is not None:
        document["target"] = {
            "folder": str(target.folder),
            "layer_count": target.layer_count,
            "hidden_size": target.hidden_size,
            "vocab_size": target.vocab_size,
            "lends": list(head.borrowed),
        }
        document["canary"] = {name: asdict(result) for name, result in figures.items()}
    return document


def _head_table(found: Inspection, target: TargetFiles | None) -> Table:
    head, config = found.head, found.head.config
    rope = config.rope_parameters
    table = Table("", "", show_header=False, title=f"a draft head in the {head.format} format")
    rows = {
        "kind": str(config.kind),
        "reads layers": found.layers,
        "options": ", ".join(found.options) or "none",
        "width": f"{config.hidden_size}, MLP {config.intermediate_size}",
        "layers": f"{config.num_layers}, {config.num_heads} heads of {config.head_dim}, "
        f"{config.num_kv_heads} for keys and values",
        "vocabulary": f"{config.draft_vocab_size} of the target's {config.vocab_size}",
        "rope": f"{rope['rope_type']}, theta {rope['rope_theta']:g}",
        "size": f"{found.parameter_count:,} parameters, {found.byte_count / 1e6:,.1f} MB, "
        f"{head.notes.dtype}",
        "made for": f"{head.notes.verifier or 'a target that its file does not name'}: "
        f"width {config.target_hidden_size}, vocabulary {config.vocab_size}",
    }
    if target is not None:
        rows["target"] = f"{target.name}: it fits; {target.layer_count} layers, lends " + (
            ", ".join(head.borrowed) or "nothing"
        )
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _show_canary(console: Console, figures: Mapping[str, CanaryResult]) -> None:
    count = figures[AS_READ].position_count
    table = Table("reading of the file", title=f"canary: share of {count} tokens guessed")
    table.add_column("first step", justify="right")
    table.add_column("second step", justify="right")
    for name, result in figures.items():
        table.add_row(name, f"{result.first_step:.1%}", f"{result.second_step:.1%}")
    console.print(table)
    if (better := better_reading(figures)) is not None:
        console.print(
            f"Read with {better}, the head does better; perhaps that is what its file means. In "
            "the speculators format, which leaves no doubt, config.json can be corrected.",
            style="yellow",
        )
