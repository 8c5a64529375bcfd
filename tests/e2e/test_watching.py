"""Dashboard, rules and docs/metrics.md against the pages of a running service."""

from urllib.request import urlopen

import pytest

from outrider.evaluation.service import Service
from tests.contract.metric_families import Families, by_service, read_page
from tests.contract.monitoring_files import queries, recorded_names
from tests.contract.promql import OWN_SERIES, series_of
from tests.e2e.processes import metric
from tests.e2e.streams import Client, ids_of, ids_request
from tests.e2e.tiny_model import TinyModel


def _page(url: str) -> Families:
    with urlopen(url, timeout=5) as page:
        return read_page(page.read().decode())


@pytest.fixture(scope="module")
def pages(service: Service, client: Client, tiny_model: TinyModel) -> dict[str, Families]:
    """What the three processes show after one request."""
    request = ids_request(tiny_model.cycle().prompt_ids, 12, ignore_eos=True)
    assert len(ids_of(client.generate(request))) == 12
    return {
        "gateway": _page(f"{service.http_url}/metrics"),
        "draft": _page(f"http://127.0.0.1:{service.draft_metrics_port}/metrics"),
        "verify": _page(f"http://127.0.0.1:{service.verify_metrics_port}/metrics"),
    }


def test_dashboard_and_rules_ask_for_nothing_that_is_not_shown(
    pages: dict[str, Families],
) -> None:
    shown = set().union(*(page.series() for page in pages.values()))
    asked = {place: series_of(query) for place, query in queries().items()}
    missing = {
        place: names - shown - recorded_names() - OWN_SERIES for place, names in asked.items()
    }
    assert {place: names for place, names in missing.items() if names} == {}
    assert len(set().union(*asked.values()) & shown) > 40, "the reader of queries finds them"


def test_the_processes_show_what_the_docs_list(pages: dict[str, Families]) -> None:
    """docs/metrics.md is compared with the registries in tests/contract; these are the pages."""
    assert pages == by_service()


def test_the_series_of_a_request_have_moved(service: Service, pages: dict[str, Families]) -> None:
    gateway, draft = service.http_port, service.draft_metrics_port
    verify = service.verify_metrics_port
    assert metric(gateway, "outrider_requests_total", outcome="ok") >= 1
    assert metric(gateway, "outrider_tokens_total", type="output") >= 12
    assert metric(gateway, "outrider_queue_seconds_count") >= 1
    assert metric(gateway, "outrider_known_draft_workers") == 1
    assert metric(gateway, "outrider_resting_draft_workers") == 0
    assert metric(gateway, "outrider_build_info", role="gateway") == 1
    assert metric(draft, "outrider_known_verify_workers") == 1
    assert metric(draft, "outrider_accepted_tokens_per_depth_total", depth="1") >= 1
    assert metric(draft, "outrider_round_seconds_total", part="verify") > 0
    assert metric(verify, "outrider_step_rows_sum") > 12
    assert 0 <= metric(verify, "outrider_turn_age_seconds") < 5
    assert 0 <= metric(draft, "outrider_turn_age_seconds") < 5
