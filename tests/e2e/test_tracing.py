"""One request is one trace over the three processes, under the client's own span."""

from outrider.evaluation.service import Service
from tests.e2e.otlp_receiver import OtlpReceiver, ReceivedSpan
from tests.e2e.processes import wait_for
from tests.e2e.streams import Client, ids_of, ids_request
from tests.e2e.tiny_model import TinyModel

TRACE_ID = "5a" * 16
CLIENT_SPAN_ID = "c3" * 8


def test_the_spans_of_all_services_hang_together_under_the_clients(
    service: Service, client: Client, tiny_model: TinyModel, receiver: OtlpReceiver
) -> None:
    traceparent = f"00-{TRACE_ID}-{CLIENT_SPAN_ID}-01"
    request = ids_request(tiny_model.cycle().prompt_ids, 12, ignore_eos=True)
    responses = client.generate(request, metadata=[("traceparent", traceparent)])
    assert len(ids_of(responses)) == 12
    rounds = responses[-1].speculation_report.rounds

    def complete() -> list[ReceivedSpan] | None:
        spans = receiver.trace(TRACE_ID)
        names = {span.service for span in spans}
        ended = sum(span.name == "outrider.verify" for span in spans)
        return spans if len(names) == 3 and _top(spans) and ended >= rounds else None

    spans = wait_for("spans of three services", complete)
    by_id = {span.span_id: span for span in spans}
    [top] = _top(spans)
    assert "gateway" in top.service
    assert all(span.parent_id in by_id for span in spans if span is not top)
    assert top.name.startswith("text_completion ")
    assert top.attributes["gen_ai.usage.output_tokens"] == 12
    assert top.attributes["gen_ai.response.time_to_first_chunk"] > 0
    [placement] = [span for span in spans if span.name == "outrider.draft"]
    assert placement.parent_id == top.span_id
    for name in ("outrider.round", "outrider.verify"):
        found = [span for span in spans if span.name == name]
        assert {span.parent_id for span in found} == {placement.span_id}
        assert {span.attributes["outrider.round"] for span in found} == set(range(rounds))
    session_ids = {span.attributes.get("outrider.session.id") for span in spans}
    assert session_ids == {top.attributes["outrider.session.id"], None}, "None: of a round"


def _top(spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    return [span for span in spans if span.parent_id == CLIENT_SPAN_ID]


def test_a_request_without_a_parent_begins_a_trace_of_its_own(
    client: Client, tiny_model: TinyModel, receiver: OtlpReceiver
) -> None:
    before = len(receiver.trace(TRACE_ID))
    client.generate(ids_request(tiny_model.cycle().prompt_ids, 2))
    assert len(receiver.trace(TRACE_ID)) == before
