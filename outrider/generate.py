"""`outrider generate`: one prompt to a running service, its answer as it arrives, then a report.

A client like any other: knows the public API and nothing behind it.
"""

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.table import Table

from outrider.client import (
    Answer,
    Chunk,
    Client,
    OutriderError,
    Report,
    RequestFields,
    ServiceUnreachable,
    Tls,
    collect,
)
from outrider.settings import BadSettings

EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

_MODEL_TIMEOUT_S = 10.0
_KEPT_CONTROLS = "\n\t"


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What to ask for; None leaves a choice to the service.

    Args:
        prompt: Text.
        chat: True: as a user's message, False: as it is, None: as a message where the model has a
            chat template.
        max_new_tokens: At least 0.
        temperature: 0 (greedy) to 100.
        seed: Of the sampling noise.
        method: Draft method; "" leaves it to the draft worker.
        key: API key; "": none.
        tls: Where TLS is spoken; None: it is not.
    """

    prompt: str
    chat: bool | None = None
    max_new_tokens: int | None = None
    temperature: float = 0.0
    seed: int | None = None
    method: str = ""
    key: str = field(default="", repr=False)
    tls: Tls | None = None


@dataclass(slots=True)
class Timing:
    """When the parts of an answer came, seconds.

    Args:
        start: Of the request.
        first: Of the first token.
        last: Of the last message.
    """

    start: float
    first: float = 0.0
    last: float = 0.0


def run_generate(address: str, options: GenerateOptions) -> int:
    """Streams one answer to stdout and a report to stderr.

    Args:
        address: host:port of a gateway.
        options: What to ask for.

    Returns:
        Exit status: 0, 1 where it failed, 130 where it was interrupted.

    Raises:
        BadSettings: A file of `options.tls` cannot be read.
    """
    console = Console(stderr=True)
    with _client(address, options) as client:
        try:
            model = client.model(timeout_s=_MODEL_TIMEOUT_S)
            fields = request_fields(options, model.has_chat_template)
            timing = Timing(start=time.monotonic())
            with closing(client.generate(**fields)) as chunks:
                answer = _show(chunks, timing, _writer())
        except KeyboardInterrupt:
            console.print("\ncancelled")
            return EXIT_INTERRUPTED
        except OutriderError as error:
            text = explain(address, error)
            console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
            return EXIT_FAILED
    console.print(report_table(answer, timing))
    return 0


def request_fields(options: GenerateOptions, has_chat_template: bool) -> RequestFields:
    """The request; what was not chosen stays absent.

    Args:
        options: What to ask for.
        has_chat_template: Of the served model.
    """
    fields = RequestFields(
        temperature=options.temperature,
        seed=options.seed,
        max_new_tokens=options.max_new_tokens,
        method=options.method,
    )
    is_chat = options.chat if options.chat is not None else has_chat_template
    fields["chat" if is_chat else "prompt"] = options.prompt
    return fields


def explain(address: str, error: OutriderError) -> str:
    """A failed call in words.

    Args:
        address: Where it went.
        error: Why it failed.
    """
    if isinstance(error, ServiceUnreachable):
        return f"outrider: no service at {address}; start one with `make serve`"
    return f"outrider: {error.code.value}: {error.message}"


def report_table(answer: Answer, timing: Timing) -> Table:
    """What the answer cost and what speculation did, as a small table.

    Args:
        answer: All of it.
        timing: Of its stream.
    """
    report, tokens = answer.report, answer.usage.completion_tokens
    elapsed = max(timing.last - timing.start, 1e-9)
    table = Table(show_header=False, box=None, padding=(0, 2), style="dim")
    table.add_row(
        "tokens",
        f"{tokens} (+ {answer.usage.prompt_tokens} of the prompt)",
        answer.finish_reason.name.lower(),
    )
    table.add_row("speed", f"{tokens / elapsed:.1f} tokens/s", f"{elapsed:.2f} s")
    if timing.first:
        table.add_row("first token", f"{(timing.first - timing.start) * 1000:.0f} ms")
    table.add_row("method", report.method)
    table.add_row("rounds", f"{report.rounds}", f"{report.tokens_per_round:.2f} tokens per round")
    share = f"{report.accepted / report.drafted:.0%} accepted" if report.drafted else ""
    table.add_row("drafted", f"{report.drafted}", share)
    table.add_row("accepted", f"{report.accepted}")
    table.add_row("time", *_time_split(report))
    return table


def _client(address: str, options: GenerateOptions) -> Client:
    try:
        return Client(address, api_key=options.key, tls=options.tls)
    except OSError as error:
        raise BadSettings(f"{error.filename}: {error.strerror}") from None


def _time_split(report: Report) -> tuple[str, str]:
    """Shares of the rounds' time: the draft side's, and the verify side's."""
    whole = max(report.draft_us + report.wire_us + report.queue_us + report.verify_us, 1)
    return (
        f"draft {report.draft_us / whole:.0%}, wire {report.wire_us / whole:.0%}",
        f"queue {report.queue_us / whole:.0%}, verify {report.verify_us / whole:.0%}",
    )


def _show(chunks: Iterable[Chunk], timing: Timing, write: Callable[[str], None]) -> Answer:
    kept: list[Chunk] = []
    try:
        for chunk in chunks:
            timing.last = time.monotonic()
            if chunk.token_ids and not timing.first:
                timing.first = timing.last
            write(chunk.text)
            kept.append(chunk)
    finally:
        write("\n")
    (answer,) = collect(kept)
    return answer


def _writer() -> Callable[[str], None]:
    """Writes at once; a terminal gets no control characters that a model may have made up."""
    is_terminal = sys.stdout.isatty()

    def write(text: str) -> None:
        if is_terminal:
            text = "".join(c if c in _KEPT_CONTROLS or c.isprintable() else "\ufffd" for c in text)
        sys.stdout.write(text)
        sys.stdout.flush()

    return write
