"""DraftingService over gRPC: translates, and nothing else."""

from contextlib import aclosing

import grpc
from opentelemetry.trace import SpanKind, Status, StatusCode

from draft_service.drafting import Drafting, RoundDone, Totals
from draft_service.methods import Methods
from draft_service.spans import record_round
from draft_service.streams import Streams
from draft_service.worker import DraftWorker
from outrider.grpc_status import abort
from outrider.protocol.decoding import DecodeLimits, FinishReason, Sampling, Speculation
from outrider.protocol.errors import (
    DeadlineExceeded,
    InvalidField,
    OutriderError,
    WorkerUnavailable,
)
from outrider.protocol.messages import ID_BYTES, short_id
from outrider.protocol.session import DraftSession
from outrider.telemetry import attributes
from outrider.telemetry.tracing import start_span_under, traceparent
from outrider.v1 import decoding_pb2, drafting_pb2, drafting_pb2_grpc

Context = grpc.aio.ServicerContext[drafting_pb2.DraftRequest, drafting_pb2.DraftResponse]
WorkerContext = grpc.aio.ServicerContext[
    drafting_pb2.GetWorkerRequest, drafting_pb2.GetWorkerResponse
]


class DraftingServicer(drafting_pb2_grpc.DraftingServiceServicer):
    """Serves the gateway.

    Args:
        worker: Runs the streams.
        streams: Brings their events here.
        methods: What requests may choose from.
    """

    def __init__(self, worker: DraftWorker, streams: Streams, methods: Methods) -> None:
        self._worker = worker
        self._streams = streams
        self._methods = methods

    async def Draft(  # type: ignore[override]  # the stub knows generators only
        self, request: drafting_pb2.DraftRequest, context: Context
    ) -> None:
        """Runs one session; whatever ends the call frees it on both workers.

        Writes instead of yielding: a call that is cancelled while it sends would leave a generator,
        and with it the session, to the garbage collector.
        """
        span = start_span_under(_traceparent(context), "outrider.draft", SpanKind.SERVER)
        try:
            drafting = _drafting(request, self._methods, traceparent(span))
            span.set_attribute(attributes.SESSION_ID, short_id(request.session_id))
            span.set_attribute(attributes.EPOCH, request.epoch)
            span.set_attribute(attributes.METHOD, drafting.method)
            async with aclosing(self._streams.run(self._worker, drafting)) as rounds:
                async for done in rounds:
                    record_round(span, done)
                    await context.write(_response(done, drafting, request.report_trees))
        except OutriderError as error:
            span.set_status(Status(StatusCode.ERROR, error.message))
            await abort(context, error)
        except grpc.aio.InternalError:
            pass  # what `write` raises where the gateway has gone; the session is freed anyway
        finally:
            span.end()

    async def GetWorker(
        self, request: drafting_pb2.GetWorkerRequest, context: WorkerContext
    ) -> drafting_pb2.GetWorkerResponse:
        """Describes the worker and its target."""
        if self._worker.is_stuck:
            await abort(context, DeadlineExceeded("the draft worker hangs"))
        target = self._worker.target
        if target is None or not self._worker.takes_sessions:
            await abort(context, WorkerUnavailable(self._worker.problem))
        if self._methods.canary.is_pending:
            await abort(context, WorkerUnavailable("the draft worker is measuring its head"))
        return drafting_pb2.GetWorkerResponse(
            model=target.model,
            target_fingerprint=target.target_fingerprint,
            tokenizer_fingerprint=target.tokenizer_fingerprint,
            context_limit=target.context_limit,
            vocab_size=target.vocab_size,
            eos_token_ids=target.eos_token_ids,
            methods=list(self._methods.drafters),
            default_method=self._methods.default,
            max_nodes=target.max_nodes,
            max_depth=target.max_depth,
            sessions=self._worker.session_count,
        )


def _traceparent(context: Context) -> str:
    metadata = context.invocation_metadata() or ()
    return next((str(value) for key, value in metadata if key == "traceparent"), "")


def _drafting(request: drafting_pb2.DraftRequest, methods: Methods, trace: str) -> Drafting:
    """Reads and checks a request.

    Raises:
        InvalidField: A field breaks a rule.
    """
    if len(request.session_id) != ID_BYTES:
        raise InvalidField("session_id", f"must be {ID_BYTES} bytes, got {len(request.session_id)}")
    if not request.prompt_token_ids:
        raise InvalidField("prompt_token_ids", "at least one id is needed")
    speculation = Speculation.from_proto(request.speculation)
    session = DraftSession(
        session_id=request.session_id,
        epoch=request.epoch,
        prompt_length=len(request.prompt_token_ids),
        token_ids=[*request.prompt_token_ids, *request.committed_token_ids],
        sampling=Sampling.from_proto(request.sampling),
        limits=DecodeLimits.from_proto(request.limits),
        wants_log_probs=request.logprobs,
        top_log_prob_count=request.top_logprobs,
        cache_salt=request.cache_salt,
        validation_threshold=speculation.validation_threshold,
        traceparent=trace,
    )
    method = "none" if speculation.disabled else methods.chosen(speculation.method)
    return Drafting(session, speculation, method)


def _response(done: RoundDone, drafting: Drafting, with_tree: bool) -> drafting_pb2.DraftResponse:
    return drafting_pb2.DraftResponse(
        index=done.index,
        token_ids=done.token_ids,
        log_probs=done.log_probs,
        top_log_probs=[one.to_proto() for one in done.top_log_probs],
        accepted_count=done.reach.accepted,
        finish_reason=FinishReason.to_proto(done.finish_reason),
        report=_report(done.totals, drafting),
        tree=done.tree.to_proto() if with_tree else None,
    )


def _report(totals: Totals, drafting: Drafting) -> decoding_pb2.SpeculationReport:
    return decoding_pb2.SpeculationReport(
        rounds=totals.rounds,
        drafted=totals.drafted,
        accepted=totals.accepted,
        tokens_per_round=totals.tokens_per_round,
        draft_us=totals.draft_us,
        wire_us=totals.wire_us,
        queue_us=totals.queue_us,
        verify_us=totals.verify_us,
        method=drafting.method,
        failovers=drafting.failovers,
        offered_by_depth=totals.offered_by_depth,
        accepted_by_depth=totals.accepted_by_depth,
    )
