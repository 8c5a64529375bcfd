"""A client that stops reading stops its own session on all workers, and loses nothing by it."""

import grpc

from outrider.evaluation.service import Service
from outrider.v1 import generation_pb2_grpc
from tests.e2e.processes import metric
from tests.e2e.streams import TIMEOUT_S, Client, ids_request
from tests.e2e.tiny_model import SENTENCES, TinyModel

# A window that is soon full: by default the client's library reads ahead for megabytes.
SMALL_WINDOW = (
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024),
    ("grpc.use_local_subchannel_pool", 1),
)


def test_a_session_rests_while_nobody_reads_it_and_then_goes_on_exactly(
    service: Service, client: Client, tiny_model: TinyModel
) -> None:
    request = ids_request(
        tiny_model.chat_ids(SENTENCES[0]), 220, "none", ignore_eos=True, logprobs=True
    )
    request.top_logprobs = 20  # so that a round is some hundred bytes

    def rounds() -> float:
        return metric(service.draft_metrics_port, "outrider_rounds_total")

    before = rounds()
    with grpc.insecure_channel(service.address, SMALL_WINDOW) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        call = stub.Generate(request, timeout=TIMEOUT_S)
        stalled = [next(call)]
        others = [client.generate(request) for _ in range(2)]
        while_stalled = rounds() - before - sum(len(other) for other in others)
        assert while_stalled < 150  # by default more than 70,000 would fit the buffers
        stalled += call
    assert [list(m.token_ids) for m in stalled] == [list(m.token_ids) for m in others[0]]
