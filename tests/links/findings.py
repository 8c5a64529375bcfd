"""What a link test has found: how a round is split on each link, and what a pulled cable does."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from outrider.evaluation.throughput import PARTS, Summary


@dataclass(frozen=True, slots=True)
class LinkFinding:
    """Streams over one link.

    Args:
        link: What it is like.
        method: Draft method.
        streams: At a time.
        equal: Answers whose ids are those of the undisturbed run.
        answers: All.
        token_rate: Tokens a second, all streams together.
        summary: Their rounds.
    """

    link: str
    method: str
    streams: int
    equal: int
    answers: int
    token_rate: float
    summary: Summary


@dataclass(frozen=True, slots=True)
class PullFinding:
    """Streams while the cable was pulled.

    Args:
        method: Draft method.
        streams: That ran then.
        seconds: How long it was out.
        cut: Streams that were still running when it was pulled.
        moved: Streams that were placed anew.
        equal: Streams whose ids are those of the undisturbed run.
        problems: What clients were told where a stream failed.
        silence_s: Longest silence of any stream, seconds.
    """

    method: str
    streams: int
    seconds: float
    cut: int
    moved: int
    equal: int
    problems: tuple[str, ...]
    silence_s: float


def is_well(links: Sequence[LinkFinding], pulls: Sequence[PullFinding]) -> bool:
    """True where no id changed, no stream failed, and each pull met streams."""
    return all(one.equal == one.answers for one in links) and all(
        one.equal == one.streams and not one.problems and one.cut for one in pulls
    )


def split_table(links: Sequence[LinkFinding]) -> Table:
    """Where the time of a mean round went, by link."""
    table = Table("link", "method", title="a round over the link, milliseconds")
    for column in ("streams", "equal", "tokens/s", "tokens per round", *PARTS, "sum"):
        table.add_column(column, justify="right")
    for one in links:
        parts = one.summary.round_us
        table.add_row(
            one.link,
            one.method,
            str(one.streams),
            f"{one.equal} of {one.answers}",
            f"{one.token_rate:.1f}",
            f"{one.summary.tokens_per_round:.2f}",
            *(f"{parts[part] / 1000:.2f}" for part in PARTS),
            f"{sum(parts.values()) / 1000:.2f}",
        )
    return table


def pull_table(pulls: Sequence[PullFinding]) -> Table:
    """What happened to streams while the cable was out."""
    table = Table("cable pulled for", "method", title="streams over a link that goes away")
    for column in ("streams", "cut", "placed anew", "equal", "failed", "longest silence s"):
        table.add_column(column, justify="right")
    for one in pulls:
        table.add_row(
            f"{one.seconds:g} s",
            one.method,
            *(str(count) for count in (one.streams, one.cut, one.moved, one.equal)),
            str(len(one.problems)),
            f"{one.silence_s:.2f}",
        )
    return table
