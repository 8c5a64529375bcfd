"""One report of a stream that was placed more than once."""

from gateway.speculation_reports import joined
from outrider.v1.decoding_pb2 import SpeculationReport

FIRST = SpeculationReport(
    rounds=2, drafted=9, accepted=3, tokens_per_round=2.5, draft_us=1, wire_us=2, queue_us=3,
    verify_us=4, method="eagle3", offered_by_depth=[2, 1], accepted_by_depth=[2, 1], failovers=1,
)  # fmt: skip
SECOND = SpeculationReport(
    rounds=3, drafted=1, accepted=0, tokens_per_round=1.0, draft_us=10, wire_us=20, queue_us=30,
    verify_us=40, method="none", offered_by_depth=[1], accepted_by_depth=[], failovers=2,
)  # fmt: skip


def test_with_nothing_before_it_a_report_stays_as_it_is() -> None:
    assert joined(SpeculationReport(), SECOND) == SECOND
    assert joined(SpeculationReport(), SpeculationReport()) == SpeculationReport()


def test_counts_add_up_and_the_mean_is_over_all_rounds() -> None:
    whole = SpeculationReport(
        rounds=5, drafted=10, accepted=3, tokens_per_round=1.6, draft_us=11, wire_us=22,
        queue_us=33, verify_us=44, method="none", offered_by_depth=[3, 1], accepted_by_depth=[2, 1],
        failovers=3,
    )  # fmt: skip
    assert joined(FIRST, SECOND) == whole
    assert {field.name for field, _ in whole.ListFields()} == set(
        SpeculationReport.DESCRIPTOR.fields_by_name
    )
