"""`outrider generate`: one prompt to a running service, its answer as it arrives, then a report.

A client like any other: knows the public API and nothing behind it.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import grpc
from rich.console import Console
from rich.table import Table

from outrider.settings import BadSettings
from outrider.v1 import decoding_pb2, generation_pb2, generation_pb2_grpc

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
    tls: "ClientTls | None" = None


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Files in PEM.

    Args:
        ca: Roots that the gateway's certificate must come from.
        cert: A certificate of the client's own; None: none.
        key: Its key.
    """

    ca: Path
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Of a channel.

        Raises:
            OSError: A file cannot be read.
        """
        return grpc.ssl_channel_credentials(
            self.ca.read_bytes(),
            self.key.read_bytes() if self.key is not None else None,
            self.cert.read_bytes() if self.cert is not None else None,
        )


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
    metadata = (("authorization", f"Bearer {options.key}"),) if options.key else ()
    with _channel(address, options.tls) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        try:
            asked = generation_pb2.GetModelRequest()
            model = stub.GetModel(asked, timeout=_MODEL_TIMEOUT_S, metadata=metadata)
            request = build_request(options, model.has_chat_template)
            timing = Timing(start=time.monotonic())
            last = _stream(stub, request, metadata, timing, _writer())
        except KeyboardInterrupt:
            console.print("\ncancelled")
            return EXIT_INTERRUPTED
        except grpc.RpcError as error:
            text = explain(address, *_status(error))
            console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
            return EXIT_FAILED
    console.print(report_table(last, timing))
    return 0


def build_request(
    options: GenerateOptions, has_chat_template: bool
) -> generation_pb2.GenerateRequest:
    """The request; what was not chosen stays absent.

    Args:
        options: What to ask for.
        has_chat_template: Of the served model.
    """
    request = generation_pb2.GenerateRequest()
    if options.chat if options.chat is not None else has_chat_template:
        request.chat.messages.add(role="user", content=options.prompt)
    else:
        request.prompt = options.prompt
    request.sampling.temperature = options.temperature
    if options.seed is not None:
        request.sampling.seed = options.seed
    if options.max_new_tokens is not None:
        request.limits.max_new_tokens = options.max_new_tokens
    request.speculation.method = options.method
    return request


def explain(address: str, code: grpc.StatusCode, details: str) -> str:
    """A failed call in words.

    Args:
        address: Where it went.
        code: Its status.
        details: The text with it.
    """
    # gRPC's own words; the gateway's UNAVAILABLE says what it lacks.
    unreachable = "failed to connect" in details or "errors resolving" in details
    if code is grpc.StatusCode.UNAVAILABLE and unreachable:
        return f"outrider: no service at {address}; start one with `make serve`"
    return f"outrider: {code.name}: {details}"


def report_table(last: generation_pb2.GenerateResponse, timing: Timing) -> Table:
    """What the answer cost and what speculation did, as a small table.

    Args:
        last: Last message of a stream.
        timing: Of the stream.
    """
    report, tokens = last.speculation_report, last.usage.completion_tokens
    elapsed = max(timing.last - timing.start, 1e-9)
    table = Table(show_header=False, box=None, padding=(0, 2), style="dim")
    reason = decoding_pb2.FinishReason.Name(last.finish_reason).removeprefix("FINISH_REASON_")
    table.add_row(
        "tokens", f"{tokens} (+ {last.usage.prompt_tokens} of the prompt)", reason.lower()
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


def _channel(address: str, tls: ClientTls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address)
    try:
        return grpc.secure_channel(address, tls.credentials())
    except OSError as error:
        raise BadSettings(f"{error.filename}: {error.strerror}") from None


def _status(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    # The error of a call is the call itself; the type hints do not know that.
    call = cast(grpc.Call, error)
    return call.code(), call.details() or ""


def _time_split(report: decoding_pb2.SpeculationReport) -> tuple[str, str]:
    """Shares of the rounds' time: the draft side's, and the verify side's."""
    whole = max(report.draft_us + report.wire_us + report.queue_us + report.verify_us, 1)
    return (
        f"draft {report.draft_us / whole:.0%}, wire {report.wire_us / whole:.0%}",
        f"queue {report.queue_us / whole:.0%}, verify {report.verify_us / whole:.0%}",
    )


def _stream(
    stub: generation_pb2_grpc.GenerationServiceStub,
    request: generation_pb2.GenerateRequest,
    metadata: tuple[tuple[str, str], ...],
    timing: Timing,
    write: Callable[[str], None],
) -> generation_pb2.GenerateResponse:
    call = stub.Generate(request, metadata=metadata)
    last = generation_pb2.GenerateResponse()
    try:
        for response in call:
            timing.last = time.monotonic()
            if response.token_ids and not timing.first:
                timing.first = timing.last
            write(response.text)
            last = response
    finally:
        call.cancel()  # of a finished call: nothing
        write("\n")
    return last


def _writer() -> Callable[[str], None]:
    """Writes at once; a terminal gets no control characters that a model may have made up."""
    is_terminal = sys.stdout.isatty()

    def write(text: str) -> None:
        if is_terminal:
            text = "".join(c if c in _KEPT_CONTROLS or c.isprintable() else "\ufffd" for c in text)
        sys.stdout.write(text)
        sys.stdout.flush()

    return write
