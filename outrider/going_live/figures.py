"""What the figures of a service say: under load, with and without speculation, and afterwards.

Policy: observations in, lines out. Knows no socket and no clock.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.evaluation.load import Point
from outrider.going_live.lines import Line, failed, passed, skipped, warned

SLOWER = 0.95  # speculation below this share of plain decoding's speed is not worth it
LEFT_BEHIND = ("outrider_sessions", "outrider_running_requests", "outrider_kv_blocks_in_use")
FAILOVERS = "outrider_failovers_total"
LOG_HINT = (
    "give files with --logs, such as of `kubectl logs -l app.kubernetes.io/part-of=outrider "
    "--prefix=false` or `journalctl -o cat -u 'outrider-*'`"
)

_LOG_LINE = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]+Z) +(warning|error|critical)\b")
_LOG_JSON = re.compile(r'"level": ?"(warning|error|critical)"', re.IGNORECASE)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@dataclass(frozen=True, slots=True)
class Budget:
    """What latencies may be at most, 99th percentile, milliseconds; 0: not bounded.

    Args:
        first_ms: To the first token.
        last_ms: To the last token.
    """

    first_ms: float = 0.0
    last_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster speculation is than plain decoding, and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LogSeen:
    """What is in one log file above `info`.

    Args:
        name: Of the file.
        line_count: All lines.
        new: Those written during the check.
        old: Those from before.
    """

    name: str
    line_count: int
    new: tuple[str, ...]
    old: tuple[str, ...]


def load_lines(point: Point, budget: Budget, problems: Sequence[str]) -> list[Line]:
    """What a service does under a given load.

    Args:
        point: What came.
        budget: What latencies may be.
        problems: Why requests were not answered.
    """
    where = point.load.name
    answers = f"{point.requests} answered, {point.refused} not"
    if problems:
        answers += f": {Counter(problems).most_common(1)[0][0]}"
    if not point.requests:
        return [failed(f"answers at {where}", answers, "look at the gateway's log")]
    advice = "it is more than this service can do: more workers, or fewer requests"
    return [
        failed(f"answers at {where}", answers, advice)
        if point.refused
        else passed(f"answers at {where}", answers),
        _latency_line("first token", point.first_ms, budget.first_ms),
        _latency_line("whole answer", point.last_ms, budget.last_ms),
        passed("tokens a second", f"{point.token_rate:.1f} at {where}"),
    ]


def speed_line(ratio: Ratio | None, method: str) -> Line:
    """Whether speculation is worth it."""
    name = "speed with speculation, against without"
    if method == "none":
        return skipped(name, "speculation is off by default")
    if ratio is None:
        return skipped(name, "answers too short to say", "ask for more with --max-new-tokens")
    figure = f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f}), one stream, {method}"
    if ratio.high < SLOWER:
        advice = "compare methods with `outrider bench`; choose with --default-method"
        return warned(name, figure, advice)
    return passed(name, figure)


def round_line(tokens: int, rounds: int, method: str) -> Line:
    """How many tokens a round brings."""
    name = "tokens per round"
    if not rounds:
        return skipped(name, "no rounds were reported")
    figure = f"{tokens / rounds:.2f} in {rounds} rounds, {method}"
    if tokens <= rounds and method != "none":
        return warned(
            name, figure, "no draft is ever right: `outrider inspect HEAD --target MODEL`"
        )
    return passed(name, figure)


def resource_lines(
    before: Mapping[str, float], after: Mapping[str, float], unread: Sequence[str]
) -> list[Line]:
    """Whether everything is given back, and whether anything was lost on the way.

    Args:
        before: Figures of all pages together, by metric, before the check.
        after: The same after it, when they have had time to settle.
        unread: Pages that do not answer, each with why.
    """
    lines = [
        failed("metrics page", problem, "look at --metrics-host, --metrics-port and the token")
        for problem in unread
    ]
    known = [name for name in LEFT_BEHIND if name in after]
    if not known:
        why = "no page shows them" if before else "no pages given"
        return [*lines, skipped("all is given back", why, "name the pages with --metrics URL,...")]
    figure = ", ".join(f"{name.removeprefix('outrider_')} {after[name]:g}" for name in known)
    if any(after[name] for name in known):
        advice = "is there other traffic? if not, something is kept: look at the workers' logs"
        lines.append(failed("all is given back", figure, advice))
    else:
        lines.append(passed("all is given back", figure))
    if FAILOVERS in after:
        lines.append(_failover_line(after[FAILOVERS] - before.get(FAILOVERS, 0.0)))
    return lines


def log_seen(name: str, text: str, since: datetime) -> LogSeen:
    """Reads a log.

    Args:
        name: Of the file.
        text: What is in it; lines as our services write them, or JSON with a `level`.
        since: When the check began, with its zone.
    """
    new: list[str] = []
    old: list[str] = []
    lines = text.splitlines()
    for line in lines:
        if not (_LOG_LINE.search(line) or _LOG_JSON.search(line)):
            continue
        stamp = _STAMP.search(line)
        is_new = stamp is None or datetime.fromisoformat(stamp[0]) >= since
        (new if is_new else old).append(line)
    return LogSeen(name, len(lines), tuple(new), tuple(old))


def log_lines(logs: Sequence[LogSeen]) -> list[Line]:
    """Whether the logs are quiet."""
    if not logs:
        return [skipped("no warning in the logs", "no files given", LOG_HINT)]
    return [_log_line(log) for log in logs]


def _latency_line(what: str, seen_ms: tuple[float, float], most_ms: float) -> Line:
    name = f"{what}, p50 and p99"
    figure = f"{seen_ms[0]:.0f} ms, {seen_ms[1]:.0f} ms"
    if most_ms and seen_ms[1] > most_ms:
        return failed(name, figure, f"p99 may be {most_ms:g} ms: more workers, or another size")
    return passed(name, figure)


def _failover_line(count: float) -> Line:
    if count:
        advice = "workers were lost while this ran: see their logs"
        return warned("no stream had to move", f"{count:g} did", advice)
    return passed("no stream had to move", "0 failovers")


def _log_line(log: LogSeen) -> Line:
    name = f"no warning in {log.name}"
    if not log.line_count:
        return warned(name, "the file is empty", LOG_HINT)
    if log.new:
        return failed(name, f"{len(log.new)} during the check; {log.new[0][:160]}", "read them")
    if log.old:
        return warned(name, f"{len(log.old)} from before; {log.old[-1][:160]}", "read them")
    return passed(name, f"{log.line_count} lines")
