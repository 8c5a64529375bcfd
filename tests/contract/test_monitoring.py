"""Dashboard and rules ask for what there is, and lead to where it is explained."""

import re

import pytest
import yaml

from outrider.protocol.errors import OutriderError
from outrider.telemetry.metrics import GatewayMetrics, render
from tests.contract.metric_families import by_service
from tests.contract.monitoring_files import (
    MONITORING,
    ROOT,
    alerts,
    dashboard,
    panels,
    queries,
    recorded_names,
)
from tests.contract.promql import OWN_SERIES, outcomes_of, series_of

SEVERITIES = {"critical", "warning"}
CONFIGURATIONS = ("prometheus.yaml", "prometheus-pods.yaml", "otel-collector.yaml")


def _reasons(cls: type[OutriderError]) -> set[str]:
    own = {(cls.reason or cls.code.value).lower()}
    return own.union(*(_reasons(one) for one in cls.__subclasses__()))


def _anchors(file: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_every_query_asks_for_series_that_a_service_shows_or_a_rule_records() -> None:
    shown = set().union(*(families.series() for families in by_service().values()))
    known = shown | recorded_names() | OWN_SERIES
    unknown = {place: series_of(query) - known for place, query in queries().items()}
    assert {place: names for place, names in unknown.items() if names} == {}


def test_every_outcome_that_is_asked_for_exists() -> None:
    known = _reasons(OutriderError) | {"ok", "cancelled"}
    assert set().union(*(outcomes_of(query) for query in queries().values())) <= known


def test_every_bound_that_is_asked_for_is_one_of_a_bucket() -> None:
    """A bound between two buckets would find no series, and an alert that never fires."""
    for query in queries().values():
        for name, bound in re.findall(r'(\w+)_bucket\{le="([^"]+)"\}', query):
            page = render(GatewayMetrics().registry, "")[0].decode()
            assert f'{name}_bucket{{le="{bound}"}}' in page


def test_every_recorded_series_is_used_or_explained() -> None:
    used = set().union(*(series_of(query) for query in queries().values()))
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert {name for name in recorded_names() if name not in used and name not in text} == set()


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(alert) -> None:
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["annotations"]["summary"]
    file, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    assert anchor in _anchors(file)


def test_no_alert_has_two_sections_and_no_section_is_of_an_alert_that_is_gone() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (Outrider\w+)$", text, re.MULTILINE)
    assert sections == [alert["alert"] for alert in alerts()]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    every = dashboard()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    taken: set[tuple[int, int]] = set()
    for panel in every:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        area = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & area, panel["title"]
        taken |= area


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_can_be_drawn(panel) -> None:
    assert panel["title"]
    assert panel["description"], "what is shown, for whom it is new"
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for target in panel["targets"]:
        assert target["expr"]
        assert target["datasource"] == panel["datasource"]


def test_the_dashboard_lets_choose_its_prometheus() -> None:
    [variable] = dashboard()["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_are_yaml_that_a_config_map_can_hold(name: str) -> None:
    assert yaml.safe_load((MONITORING / name).read_text(encoding="utf-8"))
    text = (MONITORING / "kustomization.yaml").read_text(encoding="utf-8")
    assert name == "prometheus.yaml" or f"={name}" in text


def test_the_collectors_pipelines_name_parts_that_are_configured() -> None:
    config = yaml.safe_load((MONITORING / "otel-collector.yaml").read_text(encoding="utf-8"))
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
    assert set(config["service"]["extensions"]) <= set(config["extensions"])


def test_what_scales_asks_for_series_that_a_service_shows() -> None:
    """Autoscalers name series too, elsewhere in the manifests."""
    shown = set().union(*(families.series() for families in by_service().values()))
    found = {
        (path.name, name)
        for path in (ROOT / "deploy" / "kustomize").rglob("*.yaml")
        if MONITORING not in path.parents
        for name in re.findall(r"\b(?:outrider|gen_ai)_\w+", path.read_text(encoding="utf-8"))
    }
    assert {(file, name) for file, name in found if name not in shown} == set()
