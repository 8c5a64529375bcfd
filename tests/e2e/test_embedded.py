"""The embedded model and its head through the whole service; skipped where it was not pulled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.evaluation.client import chat_request
from outrider.evaluation.plain_target import PlainTarget
from outrider.evaluation.prompts import OWN_SET, load_prompts
from outrider.evaluation.service import Service, ServiceOptions
from tests.e2e.streams import Client, ids_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LENGTH = 16
PROMPTS = load_prompts(OWN_SET, ("gsm8k", "qa"), per_task=1)
THREADS = 1  # two would wait for each other on a machine with a busy core
# Fewer points of the cost table, which is measured at start.
ENVIRONMENT = {
    "OUTRIDER_VERIFY_MAX_NODES": "16",
    "OUTRIDER_VERIFY_KV_CACHE_MIB": "64",
    "OUTRIDER_DRAFT_THREADS": "1",
    "OUTRIDER_DRAFT_FULL_TREES": "true",  # else the head may rest, and nothing be accepted
}


@pytest.fixture(scope="module")
def wanted(embedded_model: Path) -> list[tuple[int, ...]]:
    """Made before the service starts: two models at once would share two cores."""
    target = PlainTarget(str(embedded_model), THREADS)
    return [target.reference(prompt, LENGTH).ids for prompt in PROMPTS]


@pytest.fixture(scope="module")
def embedded(embedded_model: Path, wanted: list[tuple[int, ...]]) -> Iterator[Client]:
    """A client of the embedded model in fp32."""
    options = ServiceOptions(str(embedded_model), "float32", THREADS, ENVIRONMENT)
    with Service(options) as service:
        client = Client(service.address)
        yield client
        client.close()


@pytest.mark.parametrize("method", ["none", "ngram", "eagle3", "hybrid", ""])
def test_chat_answers_equal_transformers(
    embedded: Client, wanted: list[tuple[int, ...]], method: str
) -> None:
    requests = [chat_request(prompt.text, method, LENGTH) for prompt in PROMPTS]
    streams = embedded.generate_together(requests, len(requests))
    assert [tuple(ids_of(responses)) for responses in streams] == wanted
    used = {responses[-1].speculation_report.method for responses in streams}
    assert used == {method or "hybrid"}  # with the head that comes with it
    accepted = sum(responses[-1].speculation_report.accepted for responses in streams)
    assert accepted > 0 or method in ("none", "ngram")
