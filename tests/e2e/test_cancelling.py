"""A client that goes away frees what it held (B47)."""

import pytest

from outrider.evaluation.service import Service
from tests.e2e.processes import metric, wait_for
from tests.e2e.streams import Client, ids_request
from tests.e2e.tiny_model import SENTENCES, TinyModel


def blocks_in_use(service: Service) -> float:
    return metric(service.verify_metrics_port, "outrider_kv_blocks_in_use")


@pytest.mark.parametrize("streams", [1, 8])
def test_cancelling_in_mid_stream_frees_the_blocks(
    service: Service, client: Client, tiny_model: TinyModel, streams: int
) -> None:
    prompt_ids = tiny_model.chat_ids(SENTENCES[0])
    request = ids_request(prompt_ids, 200, "none", ignore_eos=True)
    calls = [client.start(request) for _ in range(streams)]
    for call in calls:
        assert next(call).token_ids
    for call in calls:
        call.cancel()
    wait_for("the blocks to be freed", lambda: blocks_in_use(service) == 0)
    wait_for(
        "the sessions to end",
        lambda: metric(service.draft_metrics_port, "outrider_sessions") == 0,
    )


def test_blocks_are_in_use_while_a_stream_runs_and_free_after_it(
    service: Service, client: Client, tiny_model: TinyModel
) -> None:
    request = ids_request(tiny_model.chat_ids(SENTENCES[0]), 200, "none", ignore_eos=True)
    call = client.start(request)
    assert next(call).token_ids
    in_use = blocks_in_use(service)
    assert len(list(call)) > 100
    assert in_use > 0
    wait_for("the blocks to be freed", lambda: blocks_in_use(service) == 0)


def test_rounds_and_tokens_are_counted(
    service: Service, client: Client, tiny_model: TinyModel
) -> None:
    def counters() -> list[float]:
        names = ("rounds", "drafted_tokens", "accepted_tokens", "committed_tokens")
        port = service.draft_metrics_port
        return [metric(port, f"outrider_{name}_total") for name in names]

    before = counters()
    request = ids_request(tiny_model.cycle().prompt_ids, 20, ignore_eos=True)
    report = client.generate(request)[-1].speculation_report
    grown = [after - start for start, after in zip(before, counters(), strict=True)]
    assert grown == [report.rounds, report.drafted, report.accepted, 20]
    assert report.tokens_per_round == pytest.approx(20 / report.rounds)
