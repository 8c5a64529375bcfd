"""What an exactness run does, row by row, and how its answers are judged.

Policy: plain values, no clock, no I/O. Knows nothing of how answers are obtained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outrider.evaluation.comparison import Mismatch, Tally, first_mismatch, tally
from outrider.evaluation.prompts import Prompt

Mode = Literal["greedy", "sampled"]
PromptKey = tuple[str, int]

MODES: tuple[Mode, ...] = ("greedy", "sampled")
PLAIN = "none"
MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """One pass over all prompts.

    Args:
        mode: "greedy" is compared with the reference, "sampled" with the yardstick.
        method: Draft method.
        concurrency: Streams at a time.
        is_yardstick: True: the other sampled rows are compared with this one.
    """

    mode: Mode
    method: str
    concurrency: int
    is_yardstick: bool = False

    @property
    def name(self) -> str:
        """Unique in a plan."""
        together = "alone" if self.concurrency == 1 else f"{self.concurrency} at a time"
        return f"{self.mode}, {self.method}, {together}"


@dataclass(frozen=True, slots=True)
class Expected:
    """Ids that a row must give for one prompt, and the margins where they are known."""

    ids: tuple[int, ...]
    margins: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one row did; `mismatches` by prompt, in the order of the prompts."""

    row: Row
    tally: Tally
    mismatches: dict[PromptKey, Mismatch]

    @property
    def passed(self) -> bool:
        """True where nothing differs beyond the tolerance."""
        return self.tally.beyond_tolerance == 0


def plan_rows(
    modes: Sequence[Mode], methods: Sequence[str], concurrencies: Sequence[int]
) -> list[Row]:
    """Lists the rows of a run; the yardstick of the sampled ones comes first among them.

    Args:
        modes: Some of MODES.
        methods: Draft methods.
        concurrencies: Numbers of streams at a time; the yardstick runs with the first.
    """
    rows = []
    pairs = [(method, concurrency) for concurrency in concurrencies for method in methods]
    if "greedy" in modes:
        rows += [Row("greedy", method, concurrency) for method, concurrency in pairs]
    if "sampled" in modes:
        yardstick = (PLAIN, concurrencies[0])
        rows.append(Row("sampled", *yardstick, is_yardstick=True))
        rows += [Row("sampled", *pair) for pair in pairs if pair != yardstick]
    return rows


def seed_for(prompt: Prompt, base_seed: int) -> int:
    """A seed of each prompt's own, the same in every row and whatever part of the set is run."""
    return (base_seed + prompt.place) & MAX_SEED


def judge(
    row: Row,
    answers: Mapping[PromptKey, Sequence[int]],
    expected: Mapping[PromptKey, Expected],
    tolerance: float | None,
) -> Verdict:
    """Compares a row's answers with what they must be.

    Args:
        row: The row.
        answers: Ids that came, by prompt.
        expected: At least the prompts of `answers`.
        tolerance: Largest margin of a mismatch that is forgiven, in logits; None: none is.
    """
    found = {
        key: first_mismatch(expected[key].ids, ids, expected[key].margins)
        for key, ids in answers.items()
    }
    counts = tally([len(ids) for ids in answers.values()], list(found.values()), tolerance)
    return Verdict(row, counts, {key: m for key, m in found.items() if m is not None})


def with_margins(
    verdict: Verdict, margins: Mapping[PromptKey, float], tolerance: float | None
) -> Verdict:
    """The verdict with margins that were measured afterwards, judged again.

    Args:
        verdict: Some of its mismatches lack a margin.
        margins: By prompt, for some of the mismatches.
        tolerance: As for `judge`.
    """
    mismatches = {
        key: replace(mismatch, margin=margins.get(key, mismatch.margin))
        for key, mismatch in verdict.mismatches.items()
    }
    beyond = sum(not mismatch.is_within(tolerance) for mismatch in mismatches.values())
    counts = replace(verdict.tally, beyond_tolerance=beyond)
    return replace(verdict, tally=counts, mismatches=mismatches)
