import sys
from importlib.metadata import version

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from outrider.telemetry.metrics import (
    DraftMetrics,
    GatewayMetrics,
    VerifyMetrics,
    render,
)

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def _sample_names(registry: CollectorRegistry) -> set[str]:
    text = render(registry, OPENMETRICS)[0].decode()
    families = text_string_to_metric_families(text)
    return {sample.name for family in families for sample in family.samples}


# Of every process on Linux, from the library; elsewhere there are none.
PROCESS = {
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
}


def _own_names(registry: CollectorRegistry) -> set[str]:
    return _sample_names(registry) - PROCESS


def _histogram(name: str) -> set[str]:
    return {f"{name}_bucket", f"{name}_count", f"{name}_sum"}


def test_the_gateway_exports_exactly_these_series() -> None:
    metrics = GatewayMetrics()
    metrics.requests.labels(outcome="stop").inc()
    metrics.tokens.labels(type="input").inc(7)
    assert _own_names(metrics.registry) == {
        "outrider_queued_requests",
        "outrider_queued_bytes",
        "outrider_running_requests",
        "outrider_build_info",
        "outrider_known_draft_workers",
        "outrider_draft_workers",
        "outrider_resting_draft_workers",
        "outrider_tokens_total",
        *_histogram("outrider_queue_seconds"),
        "outrider_failovers_total",
        "outrider_requests_total",
        *_histogram("gen_ai_server_time_to_first_token_seconds"),
        *_histogram("gen_ai_server_time_per_output_token_seconds"),
        *_histogram("gen_ai_server_request_duration_seconds"),
    }


def test_a_draft_worker_exports_exactly_these_series() -> None:
    metrics = DraftMetrics()
    metrics.accepted_tokens_per_depth.labels(depth=1).inc()
    metrics.round_seconds.labels(part="wire").inc(0.001)
    metrics.dropped_heads.labels(reason="late").inc()
    assert _own_names(metrics.registry) == {
        "outrider_build_info",
        "outrider_known_verify_workers",
        "outrider_lost_verify_workers_total",
        "outrider_moved_sessions_total",
        "outrider_turn_age_seconds",
        "outrider_rounds_total",
        "outrider_drafted_tokens_total",
        "outrider_accepted_tokens_total",
        "outrider_committed_tokens_total",
        "outrider_accepted_tokens_per_depth_total",
        "outrider_round_seconds_total",
        *_histogram("outrider_tokens_per_round"),
        "outrider_sessions",
        "outrider_verify_workers",
        "outrider_stale_messages_total",
        "outrider_dropped_heads_total",
    }


def test_a_verify_worker_exports_exactly_these_series() -> None:
    metrics = VerifyMetrics()
    metrics.device_memory.labels("cuda:0", "used").set(1)
    assert _own_names(metrics.registry) == {
        "outrider_build_info",
        "outrider_device_memory_bytes",
        "outrider_turn_age_seconds",
        "outrider_kv_blocks_in_use",
        "outrider_kv_blocks_total",
        "outrider_sessions",
        "outrider_waiting_sessions",
        *_histogram("outrider_step_seconds"),
        *_histogram("outrider_step_rows"),
        "outrider_preemptions_total",
        "outrider_prefix_rows_total",
        "outrider_prefix_hit_rows_total",
        "outrider_stale_messages_total",
        "outrider_bad_frames_total",
        "outrider_expired_leases_total",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="the library reads /proc")
def test_every_process_shows_its_memory_and_says_what_it_is() -> None:
    registry = VerifyMetrics().registry
    assert _sample_names(registry) >= PROCESS
    assert (registry.get_sample_value("process_resident_memory_bytes") or 0) > 2**20
    text = render(registry, "")[0].decode()
    assert f'outrider_build_info{{role="verify",version="{version("outrider")}"}} 1.0' in text


def test_plain_text_has_no_created_series_either() -> None:
    metrics = DraftMetrics()
    metrics.rounds.inc()
    assert b"_created" not in render(metrics.registry, "")[0]


@pytest.mark.parametrize(
    ("accept", "start", "end"),
    [
        ("", "text/plain", b"\n"),
        ("*/*", "text/plain", b"\n"),
        (OPENMETRICS + ", text/plain;q=0.5", "application/openmetrics-text", b"# EOF\n"),
    ],
)
def test_the_accept_header_chooses_the_form(accept: str, start: str, end: bytes) -> None:
    body, content_type = render(VerifyMetrics().registry, accept)
    assert content_type.startswith(start)
    assert body.endswith(end)
    assert (b"# EOF" in body) == (end == b"# EOF\n")


def test_an_exemplar_carries_its_trace_id() -> None:
    metrics = GatewayMetrics()
    metrics.request_duration.observe(0.2, exemplar={"trace_id": "ab" * 16})
    assert b'# {trace_id="' + b"ab" * 16 in render(metrics.registry, OPENMETRICS)[0]
