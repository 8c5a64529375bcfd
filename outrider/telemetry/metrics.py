"""Prometheus metrics of the three services: names, help texts and buckets.

Each service makes its own registry, so that two of them can live in one test. Refuses to know when
something is counted. The exported names are a public contract; tests hold the full list.
"""

from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

# A `_created` series beside each counter doubles what a careless sum over a prefix finds.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no hints here

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS_PER_ROUND: Final = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def _turn_age(registry: CollectorRegistry) -> Gauge:
    """Of a worker's loop; taken when the page is read, so that it grows while the loop hangs."""
    return Gauge(
        "outrider_turn_age_seconds",
        "Since the loop of this worker began its last turn; it grows where the loop hangs.",
        registry=registry,
    )


def _registry(role: str) -> CollectorRegistry:
    """With what every process shows: its version and, on Linux, its memory, time and files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Info("outrider_build", "What runs here.", registry=registry)
    build.info({"version": version("outrider"), "role": role})
    return registry


class GatewayMetrics:
    """What the gateway counts, per request."""

    def __init__(self) -> None:
        self.registry = _registry("gateway")
        self.queued_requests = Gauge(
            "outrider_queued_requests",
            "Requests that wait for a place.",
            registry=self.registry,
        )
        self.queued_bytes = Gauge(
            "outrider_queued_bytes",
            "What these requests hold in memory, about.",
            registry=self.registry,
        )
        self.running_requests = Gauge(
            "outrider_running_requests",
            "Requests that are being generated.",
            registry=self.registry,
        )
        self.draft_workers = Gauge(
            "outrider_draft_workers",
            "Draft workers that answer.",
            registry=self.registry,
        )
        self.known_draft_workers = Gauge(
            "outrider_known_draft_workers",
            "Draft workers that are listed or found by name, whether they answer or not.",
            registry=self.registry,
        )
        self.resting_draft_workers = Gauge(
            "outrider_resting_draft_workers",
            "Draft workers that answer, but where streams failed: others go before them.",
            registry=self.registry,
        )
        self.failovers = Counter(
            "outrider_failovers_total",
            "Times that a stream lost its draft worker and was placed anew.",
            registry=self.registry,
        )
        self.requests = Counter(
            "outrider_requests_total",
            "Requests that ended, by how they did; refused ones too.",
            ["outcome"],
            registry=self.registry,
        )
        self.tokens = Counter(
            "outrider_tokens_total",
            "Tokens of requests: input, of prompts that a worker took, and output, sent.",
            ["type"],
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "outrider_queue_seconds",
            "How long a request waited for its place; 0 where one was free.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.time_to_first_token = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "From the arrival of a request to its first token.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.time_per_output_token = Histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Mean time per token after the first, per request.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.request_duration = Histogram(
            "gen_ai_server_request_duration_seconds",
            "From the arrival of a request to its last token.",
            buckets=_SECONDS,
            registry=self.registry,
        )


class DraftMetrics:
    """What a draft worker counts, per round."""

    def __init__(self) -> None:
        self.registry = _registry("draft")
        self.rounds = Counter(
            "outrider_rounds_total",
            "Exchanges of a tree and a verdict.",
            registry=self.registry,
        )
        self.drafted_tokens = Counter(
            "outrider_drafted_tokens_total",
            "Nodes proposed, roots excluded.",
            registry=self.registry,
        )
        self.accepted_tokens = Counter(
            "outrider_accepted_tokens_total",
            "Proposed nodes that were accepted.",
            registry=self.registry,
        )
        self.committed_tokens = Counter(
            "outrider_committed_tokens_total",
            "Tokens committed, bonus tokens included. Over rounds: tokens per round.",
            registry=self.registry,
        )
        self.offered_rounds_per_depth = Counter(
            "outrider_offered_rounds_per_depth_total",
            "Rounds whose tree had candidates at a depth, behind an accepted path up to there.",
            ["depth"],
            registry=self.registry,
        )
        self.accepted_tokens_per_depth = Counter(
            "outrider_accepted_tokens_per_depth_total",
            "Accepted nodes by their depth in the tree, 1 for a child of the root.",
            ["depth"],
            registry=self.registry,
        )
        self.round_seconds = Counter(
            "outrider_round_seconds_total",
            "Time of rounds by part: draft, wire, queue, verify.",
            ["part"],
            registry=self.registry,
        )
        self.tokens_per_round = Histogram(
            "outrider_tokens_per_round",
            "Tokens committed by one round, the bonus token included.",
            buckets=_TOKENS_PER_ROUND,
            registry=self.registry,
        )
        self.sessions = Gauge(
            "outrider_sessions",
            "Sessions that are open on this worker.",
            registry=self.registry,
        )
        self.verify_workers = Gauge(
            "outrider_verify_workers",
            "Verify workers that take sessions.",
            registry=self.registry,
        )
        self.known_verify_workers = Gauge(
            "outrider_known_verify_workers",
            "Verify workers that are listed or found by name, whether they answer or not.",
            registry=self.registry,
        )
        self.lost_verify_workers = Counter(
            "outrider_lost_verify_workers_total",
            "Times that a verify worker fell silent or its connection broke.",
            registry=self.registry,
        )
        self.moved_sessions = Counter(
            "outrider_moved_sessions_total",
            "Times that a session lost its verify worker and was placed anew.",
            registry=self.registry,
        )
        self.turn_age = _turn_age(self.registry)
        self.stale_messages = Counter(
            "outrider_stale_messages_total",
            "Messages dropped because of an old epoch or round.",
            registry=self.registry,
        )
        self.dropped_heads = Counter(
            "outrider_dropped_heads_total",
            "Sessions that went on without their draft head, by the reason.",
            ["reason"],
            registry=self.registry,
        )
        self.dropped_draft_models = Counter(
            "outrider_dropped_draft_models_total",
            "Sessions that went on without their draft model, by the reason.",
            ["reason"],
            registry=self.registry,
        )


class VerifyMetrics:
    """What a verify worker counts, per step."""

    def __init__(self) -> None:
        self.registry = _registry("verify")
        self.kv_blocks_in_use = Gauge(
            "outrider_kv_blocks_in_use",
            "Blocks of the KV pool that sessions hold.",
            registry=self.registry,
        )
        self.kv_blocks_total = Gauge(
            "outrider_kv_blocks_total",
            "Blocks of the KV pool.",
            registry=self.registry,
        )
        self.device_memory = Gauge(
            "outrider_device_memory_bytes",
            "Memory of the devices that hold the target, used (by whomever) and free; none: CPU.",
            ["device", "state"],
            registry=self.registry,
        )
        self.sessions = Gauge(
            "outrider_sessions",
            "Sessions that are open on this worker.",
            registry=self.registry,
        )
        self.waiting_sessions = Gauge(
            "outrider_waiting_sessions",
            "Sessions whose tree waits for its step.",
            registry=self.registry,
        )
        self.turn_age = _turn_age(self.registry)
        self.step_seconds = Histogram(
            "outrider_step_seconds",
            "One forward pass of the target with its acceptance.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.step_rows = Histogram(
            "outrider_step_rows",
            "Rows of one forward pass: tree nodes and prefilled tokens.",
            buckets=_ROWS,
            registry=self.registry,
        )
        self.prefix_rows = Counter(
            "outrider_prefix_rows_total",
            "Rows of sessions that began, or began again, and might have been in the cache.",
            registry=self.registry,
        )
        self.prefix_hit_rows = Counter(
            "outrider_prefix_hit_rows_total",
            "Of those, rows that were there. Over outrider_prefix_rows_total: the hit rate.",
            registry=self.registry,
        )
        self.preemptions = Counter(
            "outrider_preemptions_total",
            "Sessions that lost their KV blocks and are prefilled again.",
            registry=self.registry,
        )
        self.stale_messages = Counter(
            "outrider_stale_messages_total",
            "Messages dropped because of an old epoch or round.",
            registry=self.registry,
        )
        self.bad_frames = Counter(
            "outrider_bad_frames_total",
            "Messages dropped because they could not be read.",
            registry=self.registry,
        )
        self.expired_leases = Counter(
            "outrider_expired_leases_total",
            "Peers whose sessions were freed because they fell silent.",
            registry=self.registry,
        )


def render(registry: CollectorRegistry, accept_header: str) -> tuple[bytes, str]:
    """Writes all metrics in the form the client asks for.

    Args:
        registry: What to show.
        accept_header: Value of `Accept`; OpenMetrics where it is named there, else Prometheus text.

    Returns:
        The body and its content type.
    """
    encode, content_type = choose_encoder(accept_header)
    return encode(registry), content_type
