"""Adds up what speculation did at the placements of one stream. Policy: plain values."""

from collections.abc import Sequence
from itertools import zip_longest

from outrider.v1 import decoding_pb2

_COUNTS = (
    "rounds",
    "drafted",
    "accepted",
    "draft_us",
    "wire_us",
    "queue_us",
    "verify_us",
    "failovers",
)
_COUNTS_BY_DEPTH = ("offered_by_depth", "accepted_by_depth")


def joined(
    earlier: decoding_pb2.SpeculationReport, report: decoding_pb2.SpeculationReport
) -> decoding_pb2.SpeculationReport:
    """One report of two placements.

    Args:
        earlier: Of what came before.
        report: Of the current placement; its method is kept.
    """
    whole = decoding_pb2.SpeculationReport(method=report.method)
    for name in _COUNTS:
        setattr(whole, name, getattr(earlier, name) + getattr(report, name))
    for name in _COUNTS_BY_DEPTH:
        getattr(whole, name).extend(_added(getattr(earlier, name), getattr(report, name)))
    committed = sum(one.tokens_per_round * one.rounds for one in (earlier, report))
    whole.tokens_per_round = committed / whole.rounds if whole.rounds else 0.0
    return whole


def _added(first: Sequence[int], second: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip_longest(first, second, fillvalue=0)]
