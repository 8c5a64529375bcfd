"""docs/metrics.md lists each metric of each service, with its type and its labels, and no other."""

import re

import pytest
from prometheus_client import CollectorRegistry

from outrider.telemetry.metrics import DraftMetrics, GatewayMetrics, VerifyMetrics
from tests.contract.metric_families import of_registry
from tests.contract.monitoring_files import ROOT

REGISTRIES = {
    "Gateway": GatewayMetrics().registry,
    "Draft worker": DraftMetrics().registry,
    "Verify worker": VerifyMetrics().registry,
}
EVERY_PROCESS = "Every process"
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)


def _table(section: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = _ROW.findall(part)
    assert rows, f"no table under {section}"
    for name, _, _, meaning, advice in rows:
        assert meaning.strip(), name
        assert advice.strip(), name
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, *_ in rows}


def _labels(registry: CollectorRegistry) -> dict[str, tuple[str, ...]]:
    """Names of the labels of each family that has some, from the metric itself: it may be empty."""
    found = {}
    for collector in registry._collector_to_names:
        labels = getattr(collector, "_labelnames", ())
        for family in collector.collect():
            name = family.name + ("_total" if family.type == "counter" else "")
            found[name] = tuple(labels)
    return found


@pytest.mark.parametrize("section", REGISTRIES)
def test_the_page_lists_exactly_what_a_service_shows(section: str) -> None:
    registry = REGISTRIES[section]
    labels = _labels(registry)
    shown = {
        name: (kind, labels.get(name, ())) for name, kind in of_registry(registry).types.items()
    }
    everywhere = _table(EVERY_PROCESS)
    assert not set(everywhere) & set(_table(section))
    everywhere["outrider_build_info"] = shown["outrider_build_info"]  # its labels are its values
    assert _table(section) | everywhere == shown
