"""Shows an exactness run: the tables, and each mismatch in words.

Knows nothing of how rows are run or judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from tokenizers import Tokenizer

from outrider.evaluation.comparison import Mismatch
from outrider.evaluation.exactness_plan import PromptKey, Verdict
from outrider.evaluation.result_log import Record

COLUMNS = ("prompts", "tokens", "equal", "mismatches", "tokens per round", "seconds")

TokenText = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class RowResult:
    """One line of the table.

    Args:
        verdict: Counts and mismatches.
        tokens_per_round: Mean committed per round, the bonus token included; 0: no rounds.
        by_task: The same for each task.
        seconds: Time of the whole row.
    """

    verdict: Verdict
    tokens_per_round: float
    by_task: dict[str, float]
    seconds: float

    def to_record(self) -> Record:
        """The line as JSON values."""
        tally = self.verdict.tally
        return {
            "type": "row",
            "row": self.verdict.row.name,
            "prompts": tally.prompts,
            "tokens": tally.tokens,
            "equal": tally.equal,
            "mismatches": tally.mismatches,
            "beyond_tolerance": tally.beyond_tolerance,
            "tokens_per_round": round(self.tokens_per_round, 4),
            "tokens_per_round_by_task": {t: round(n, 4) for t, n in self.by_task.items()},
            "seconds": round(self.seconds, 1),
        }


def exactness_table(results: Sequence[RowResult]) -> Table:
    """The table of the rows that have been run."""
    table = Table("row", "against")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for result in results:
        row, counts = result.verdict.row, result.verdict.tally
        against = "transformers, fp32" if row.mode == "greedy" else "sampled, none"
        compared = (str(counts.equal), str(counts.mismatches))
        if row.is_yardstick:
            against, compared = "(yardstick)", ("-", "-")
        table.add_row(
            row.name,
            against,
            str(counts.prompts),
            str(counts.tokens),
            *compared,
            f"{result.tokens_per_round:.2f}",
            f"{result.seconds:.0f}",
            style=None if result.verdict.passed else "red",
        )
    return table


def lengths_table(results: Sequence[RowResult]) -> Table:
    """Tokens per round by task, and their mean, in which each task weighs the same."""
    tasks = list(dict.fromkeys(task for result in results for task in result.by_task))
    table = Table("row", title="tokens per round")
    for task in (*tasks, "mean"):
        table.add_column(task, justify="right")
    for result in results:
        lengths = [result.by_task[task] for task in tasks]
        mean = sum(lengths) / len(lengths)
        table.add_row(result.verdict.row.name, *(f"{one:.2f}" for one in (*lengths, mean)))
    return table


def describe_mismatch(row: str, key: PromptKey, mismatch: Mismatch, token_text: TokenText) -> str:
    """One line: where, both ids with their text, and the margin."""
    margin = "not known" if mismatch.margin is None else f"{mismatch.margin:.6f}"
    return (
        f"{row}: {key[0]}/{key[1]} at position {mismatch.position}: "
        f"expected {_token(mismatch.expected, token_text)}, "
        f"got {_token(mismatch.actual, token_text)}; margin {margin}"
    )


def token_text_of(model: str) -> TokenText:
    """How ids of a model read; empty texts where its tokenizer is not at hand."""
    path = Path(model) / "tokenizer.json"
    if not path.is_file():
        return lambda _: ""
    tokenizer = Tokenizer.from_file(str(path))
    return lambda token_id: str(tokenizer.decode([token_id], skip_special_tokens=False))


def _token(token_id: int | None, token_text: TokenText) -> str:
    return "the end" if token_id is None else f"{token_id} {token_text(token_id)!r}"
