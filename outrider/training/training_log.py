"""What a run tells of itself, one JSON object a line; a resumed run goes on where it stood.

Two kinds of record: a training step has `objective`, a measurement `held_out`; both have `step`
(the optimisation steps done), `losses`, `accuracies`, `expected_length` and `chain_length`.
"""

import json
from pathlib import Path
from typing import Any

from outrider.evaluation.result_log import complete_lines

Record = dict[str, Any]


class TrainingLog:
    """One file, appended to.

    Args:
        path: Made with its folder where missing.
        steps_done: Records behind this step are of a run that was killed before its next
            checkpoint; they are dropped, since those steps are taken again.
    """

    def __init__(self, path: Path, steps_done: int) -> None:
        self._path = path
        self.records = [one for one in read_log(path) if one["step"] <= steps_done]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(map(_line, self.records)), encoding="utf-8")

    def append(self, record: Record) -> None:
        """Writes one record and hands it to the operating system at once."""
        self.records.append(record)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(record))


def read_log(path: Path) -> list[Record]:
    """All complete records; none where there is no file."""
    return [json.loads(line) for line in complete_lines(path).splitlines()]


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
