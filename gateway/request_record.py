"""What one request leaves behind: its span and its share of the metrics, whatever its end.

Never a prompt or an answer, and no error text, which may quote one. Time is an argument.
"""

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode, format_trace_id

from gateway.finish_reasons import FINISH_REASON_NAMES
from gateway.requests import GenerationJob
from outrider.protocol.messages import short_id
from outrider.telemetry import attributes
from outrider.telemetry.metrics import GatewayMetrics
from outrider.telemetry.tracing import parent_context, tracer
from outrider.v1 import generation_pb2

OUTCOME_OK = "ok"
OUTCOME_CANCELLED = "cancelled"
MAX_INT_ATTRIBUTE = 2**63 - 1


class RequestRecord:
    """The record of one request, from its arrival until `close`.

    Args:
        metrics: Where it counts.
        traceparent: W3C context of the client, or "".
        now: Time of arrival, seconds.
    """

    def __init__(self, metrics: GatewayMetrics, traceparent: str, now: float) -> None:
        self._metrics = metrics
        self._arrived = now
        self._first_token: float | None = None
        self._last_token = now
        self._prompt_count = 0
        self._is_placed = False
        self._completion_count = 0
        self.span: trace.Span = tracer().start_span(
            "generate", context=parent_context(traceparent), kind=SpanKind.SERVER
        )

    @property
    def token_count(self) -> int:
        """What the request has cost: its prompt, if a worker had it, and all that was sent."""
        return self._completion_count + (self._prompt_count if self._is_placed else 0)

    @property
    def _exemplar(self) -> dict[str, str] | None:
        """Leads from a metric to the trace of a request that it counts."""
        if not self.span.is_recording():
            return None
        return {"trace_id": format_trace_id(self.span.get_span_context().trace_id)}

    def read(self, job: GenerationJob, model: str, operation: str) -> None:
        """The request was accepted as this job.

        Args:
            job: What it is now.
            model: Name of the model that answers.
            operation: CHAT or TEXT_COMPLETION of the attributes.
        """
        self._prompt_count = len(job.prompt_token_ids)
        if self.span.is_recording():
            self.span.update_name(f"{operation} {model}")
            self.span.set_attributes(_request_attributes(job, model, operation))

    def placed(self, session_id: bytes, epoch: int) -> None:
        """The stream goes to a worker."""
        self._is_placed = True
        if self.span.is_recording():
            self.span.set_attribute(attributes.SESSION_ID, short_id(session_id))
            self.span.set_attribute(attributes.EPOCH, epoch)

    def sent(self, message: generation_pb2.GenerateResponse, now: float) -> None:
        """A message is about to go to the client."""
        if message.token_ids:
            if self._first_token is None:
                self._first_token = now
                self.span.set_attribute(attributes.TIME_TO_FIRST_CHUNK, now - self._arrived)
                self._metrics.time_to_first_token.observe(now - self._arrived, self._exemplar)
            self._last_token = now
            self._completion_count += len(message.token_ids)
        if message.finish_reason and self.span.is_recording():
            reason = FINISH_REASON_NAMES[message.finish_reason]
            self.span.set_attribute(attributes.FINISH_REASONS, (reason,))
            self.span.set_attribute(attributes.METHOD, message.speculation_report.method)
            self.span.set_attribute(attributes.ROUNDS, message.speculation_report.rounds)

    def close(self, outcome: str, now: float) -> None:
        """The request is over.

        Args:
            outcome: "ok", "cancelled", or the code of the error.
            now: Seconds, on the clock of the arrival.
        """
        self._metrics.requests.labels(outcome=outcome).inc()
        self._metrics.request_duration.observe(now - self._arrived, self._exemplar)
        self._metrics.tokens.labels(type="input").inc(self.token_count - self._completion_count)
        self._metrics.tokens.labels(type="output").inc(self._completion_count)
        if self._first_token is not None and self._completion_count > 1:
            spread = (self._last_token - self._first_token) / (self._completion_count - 1)
            self._metrics.time_per_output_token.observe(spread)
        self.span.set_attribute(attributes.OUTPUT_TOKENS, self._completion_count)
        if outcome != OUTCOME_OK:
            self.span.set_attribute("error.type", outcome)
            self.span.set_status(Status(StatusCode.ERROR, outcome))
        self.span.end()


def _request_attributes(
    job: GenerationJob, model: str, operation: str
) -> dict[str, str | int | float]:
    sampling = job.sampling
    found: dict[str, str | int | float] = {
        attributes.OPERATION_NAME: operation,
        attributes.PROVIDER_NAME: attributes.PROVIDER,
        attributes.REQUEST_MODEL: model,
        attributes.RESPONSE_MODEL: model,
        attributes.REQUEST_TEMPERATURE: sampling.temperature,
        attributes.REQUEST_TOP_P: sampling.top_p,
        attributes.REQUEST_MAX_TOKENS: job.limits.max_new_tokens if job.limits else 0,
        attributes.INPUT_TOKENS: len(job.prompt_token_ids),
    }
    if sampling.top_k:
        found[attributes.REQUEST_TOP_K] = sampling.top_k
    if not sampling.is_greedy and sampling.seed <= MAX_INT_ATTRIBUTE:  # OTLP has no larger ones
        found[attributes.REQUEST_SEED] = sampling.seed
    if job.choices > 1:
        found[attributes.CHOICE_COUNT] = job.choices
    return found
