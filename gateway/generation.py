"""Answers one request, whatever protocol it came by: same verdict, same messages for gRPC and HTTP.

Shell: it awaits, draws seeds and reads the clock; what is decided is decided in `requests`,
`admission`, `journal` and `text_stream`. Whoever stops reading the messages closes the generator,
which cancels the session on the worker.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from gateway.choices import Messages, interleave
from gateway.draft_workers import DraftWorkers
from gateway.gate import Gate
from gateway.guard import ANYBODY, Caller
from gateway.journal import SESSION_ID_BYTES, CommittedRound, Journal
from gateway.placing import Placing
from gateway.request_record import OUTCOME_CANCELLED, OUTCOME_OK, RequestRecord
from gateway.requests import GenerationJob, RequestLimits, read_request
from gateway.round_report import round_report
from gateway.served_model import ServedModel
from gateway.text_stream import TextDelta, TextStream
from gateway.token_pieces import TokenPieces
from gateway.tokenization import PromptTokenizer
from outrider.protocol.decoding import DecodeLimits, FinishReason
from outrider.protocol.errors import (
    DeadlineExceeded,
    InternalFailure,
    OutriderError,
)
from outrider.telemetry import attributes
from outrider.telemetry.logging import origin
from outrider.telemetry.metrics import GatewayMetrics
from outrider.telemetry.tracing import traceparent as traceparent_of
from outrider.v1 import decoding_pb2, generation_pb2

THREAD_BYTES = 4096  # a longer request is tokenised in a thread, so that other streams go on
TOKEN_BYTES = 36  # one id of a prompt in memory

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """What a request may hold, and how long it may take.

    Args:
        request: What it may hold, and gets by default.
        max_deadline_s: Longest time of any request, seconds.
    """

    request: RequestLimits
    max_deadline_s: float


class Generation:
    """The one way from a request to its messages.

    Args:
        tokenizer: The target's.
        workers: Say what is served.
        placing: Places streams on them.
        gate: Bounds what runs and waits.
        metrics: Counts requests.
        limits: Defaults and caps.
        charge: Told who asked and how many tokens it took, at the end of each request.
        entropy: Random bytes for session ids and absent seeds.
    """

    def __init__(
        self,
        tokenizer: PromptTokenizer,
        workers: DraftWorkers,
        placing: Placing,
        gate: Gate,
        metrics: GatewayMetrics,
        limits: GenerationLimits,
        charge: Callable[[Caller, int], None] = lambda caller, tokens: None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._tokenizer = tokenizer
        self._workers = workers
        self._placing = placing
        self._gate = gate
        self._metrics = metrics
        self._limits = limits
        self._charge = charge
        self._entropy = entropy

    @property
    def pieces(self) -> TokenPieces:
        """Bytes of each token."""
        return self._tokenizer.pieces

    @property
    def special_tokens(self) -> Mapping[int, str]:
        """Names of the target's special tokens, by id."""
        return self._tokenizer.special_tokens

    async def describe(self) -> generation_pb2.GetModelResponse:
        """The served model.

        Raises:
            OutriderError: No worker answers, or it does not fit.
        """
        return (await self._workers.model()).to_proto(self._tokenizer.has_chat_template)

    async def generate(
        self,
        request: generation_pb2.GenerateRequest,
        timeout_s: float | None,
        traceparent: str,
        caller: Caller = ANYBODY,
    ) -> AsyncGenerator[generation_pb2.GenerateResponse, None]:
        """Answers a request.

        Args:
            request: As it came in, unchecked.
            timeout_s: Time that its client gives it, seconds; None: the server's cap.
            traceparent: W3C context of the client, or "".
            caller: Who asks; nobody begins with cached prompts of another one.

        Yields:
            One message a round; the last has finish_reason, usage and speculation_report.

        Raises:
            OutriderError: Why it cannot be answered, or not to its end.
        """
        now = asyncio.get_running_loop().time
        record = RequestRecord(self._metrics, traceparent, now())
        cap = self._limits.max_deadline_s
        deadline = now() + (cap if timeout_s is None else min(timeout_s, cap))
        outcome = OUTCOME_CANCELLED
        try:
            async with aclosing(self._answer(request, deadline, record, caller)) as messages:
                async for message in messages:
                    record.sent(message, now())
                    yield message
            outcome = OUTCOME_OK
        except OutriderError as error:
            outcome = error.reason.lower()
            raise
        except Exception as error:
            outcome = InternalFailure.code.value.lower()
            _logger.error("a request failed unexpectedly: %s", origin(error))
            raise InternalFailure("internal error") from None
        finally:
            record.close(outcome, now())
            self._charge(caller, record.token_count)

    async def _answer(
        self,
        request: generation_pb2.GenerateRequest,
        deadline: float,
        record: RequestRecord,
        caller: Caller,
    ) -> AsyncGenerator[generation_pb2.GenerateResponse, None]:
        _time_left(deadline)
        self._gate.check(caller.line, request.ByteSize(), deadline)
        model = await self._workers.model()
        job = (await self._read(request, model)).of_tenant(caller.tenant)
        operation = attributes.CHAT if request.HasField("chat") else attributes.TEXT_COMPLETION
        record.read(job, model.name, operation)
        limits = job.limits
        if limits is None:
            for number in range(job.choices):
                yield _empty_answer(job, number)
            return

        def open_choice(number: int) -> Messages:
            return self._stream(job.choice(number), limits, model, deadline, record)

        alone = job.choices == 1
        held_bytes = request.ByteSize() + TOKEN_BYTES * len(job.prompt_token_ids)
        async with (
            self._gate.place(caller.line, held_bytes, deadline),
            aclosing(open_choice(0) if alone else interleave(job.choices, open_choice)) as messages,
        ):
            async for message in messages:
                yield message

    async def _read(
        self, request: generation_pb2.GenerateRequest, model: ServedModel
    ) -> GenerationJob:
        arguments = (
            request,
            model,
            self._tokenizer,
            self._limits.request,
            int.from_bytes(self._entropy(8), "big"),
        )
        if request.ByteSize() < THREAD_BYTES:
            return read_request(*arguments)
        return await asyncio.to_thread(read_request, *arguments)

    async def _stream(
        self,
        job: GenerationJob,
        limits: DecodeLimits,
        model: ServedModel,
        deadline: float,
        record: RequestRecord,
    ) -> AsyncGenerator[generation_pb2.GenerateResponse, None]:
        session_id = self._entropy(SESSION_ID_BYTES)
        journal = Journal(session_id, job, limits, model.vocab_size)
        text = TextStream(self._tokenizer.pieces, job.stop, limits.min_new_tokens)
        rounds = self._placing.rounds(
            journal,
            model.target_fingerprint,
            deadline,
            traceparent_of(record.span),
            lambda epoch: record.placed(session_id, epoch),
        )
        completion_count = 0
        async with aclosing(rounds):
            async for committed in rounds:
                delta = text.add(
                    committed.token_ids,
                    committed.log_probs,
                    committed.accepted_count,
                    is_last=committed.finish_reason is not None,
                )
                completion_count += len(delta.token_ids)
                message = _message(job, delta)
                message.top_log_probs.extend(committed.top_log_probs[: len(delta.token_ids)])
                if committed.tree is not None:
                    report = round_report(committed.tree, delta.token_texts, self.pieces)
                    message.round_report.CopyFrom(report)
                if not delta.is_stopped and committed.finish_reason is None:
                    yield message
                    continue
                _finish(message, job, delta, committed, completion_count)
                yield message
                return


def _time_left(deadline: float) -> float:
    left = deadline - asyncio.get_running_loop().time()
    if left <= 0:
        raise DeadlineExceeded("the deadline passed before the request was started")
    return left


def _message(job: GenerationJob, delta: TextDelta) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        text=delta.text,
        token_ids=delta.token_ids,
        log_probs=delta.log_probs,
        accepted_count=delta.accepted_count,
        request_id=job.request_id,
    )


def _finish(
    message: generation_pb2.GenerateResponse,
    job: GenerationJob,
    delta: TextDelta,
    committed: CommittedRound,
    completion_count: int,
) -> None:
    reason = FinishReason.STOP if delta.is_stopped else committed.finish_reason
    message.finish_reason = FinishReason.to_proto(reason)
    message.usage.prompt_tokens = len(job.prompt_token_ids)
    message.usage.completion_tokens = completion_count
    message.speculation_report.CopyFrom(committed.report)


def _empty_answer(job: GenerationJob, number: int) -> generation_pb2.GenerateResponse:
    """For max_new_tokens = 0: nothing is generated, so no session is opened."""
    return generation_pb2.GenerateResponse(
        finish_reason=FinishReason.to_proto(FinishReason.LENGTH),
        usage=generation_pb2.Usage(prompt_tokens=len(job.prompt_token_ids)),
        speculation_report=decoding_pb2.SpeculationReport(),
        request_id=job.request_id,
        choice=number,
    )
