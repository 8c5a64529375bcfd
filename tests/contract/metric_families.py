"""The families of metrics that a page shows, or that our three registries would."""

import re
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from outrider.telemetry.metrics import DraftMetrics, GatewayMetrics, VerifyMetrics, render

HISTOGRAM_ENDS = ("_bucket", "_sum", "_count")
_TYPE_LINE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


class Families(NamedTuple):
    """What one page shows.

    Args:
        types: Type of each family by its name; a counter's name ends in `_total`.
    """

    types: dict[str, str]

    def series(self) -> set[str]:
        """Names that a query may ask for."""
        found: set[str] = set()
        for name, kind in self.types.items():
            is_histogram = kind == "histogram"
            found |= (
                {f"{name}_{end}" for end in ("bucket", "sum", "count")} if is_histogram else {name}
            )
        return found


def read_page(text: str) -> Families:
    """Reads a page in Prometheus' text format; a family is there even while it has no series."""
    return Families(dict(_TYPE_LINE.findall(text)))


def of_registry(registry: CollectorRegistry) -> Families:
    """What a registry shows."""
    return read_page(render(registry, "")[0].decode())


def by_service() -> dict[str, Families]:
    """What each service shows."""
    return {
        "gateway": of_registry(GatewayMetrics().registry),
        "draft": of_registry(DraftMetrics().registry),
        "verify": of_registry(VerifyMetrics().registry),
    }
