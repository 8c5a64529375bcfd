"""A draft model served for real: streams are those of the target alone, whatever it is worth."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from outrider.evaluation.service import Service, ServiceFailed, ServiceOptions
from outrider.v1 import decoding_pb2, generation_pb2
from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.processes import children
from tests.e2e.streams import Client, Responses, ids_of, ids_request
from tests.e2e.tiny_model import SENTENCES, TinyModel, build_draft_model

LENGTH = 40
# The tiny target is too fast to be worth drafting for.
ENVIRONMENT = TINY_ENVIRONMENT | {"OUTRIDER_DRAFT_FULL_TREES": "true"}


def options(tiny_model: TinyModel, draft_model: Path) -> ServiceOptions:
    return ServiceOptions(
        str(tiny_model.folder), "float32", 1, ENVIRONMENT, draft_model=str(draft_model)
    )


@pytest.fixture(scope="module", params=["another", "the target itself"])
def drafted(
    request: pytest.FixtureRequest,
    tiny_model: TinyModel,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, bool]]:
    """A service with a draft model, and whether that knows the target."""
    is_target = request.param == "the target itself"
    folder = tmp_path_factory.mktemp("draft")
    draft_model = tiny_model.folder if is_target else build_draft_model(tiny_model, folder)
    with Service(options(tiny_model, draft_model)) as service:
        yield service, is_target


@pytest.fixture(scope="module")
def draft_client(drafted: tuple[Service, bool]) -> Iterator[Client]:
    client = Client(drafted[0].address)
    yield client
    client.close()


@pytest.fixture(scope="module")
def prompts(tiny_model: TinyModel) -> list[list[int]]:
    """Short ones, and some that are run in pieces."""
    chats = [tiny_model.chat_ids(sentence) for sentence in SENTENCES]
    return [*chats, tiny_model.cycle().prompt_ids, [*chats[0], *chats[2], *chats[4]], chats[3][:7]]


def share_accepted(streams: list[Responses]) -> float:
    """Of the depths that rounds got to and had candidates at, those where one was accepted."""
    reports = [responses[-1].speculation_report for responses in streams]
    assert {report.method for report in reports} == {"model"}
    offered = sum(sum(report.offered_by_depth) for report in reports)
    assert offered > 0
    return sum(sum(report.accepted_by_depth) for report in reports) / offered


@pytest.mark.parametrize("concurrency", [1, 8])
def test_greedy_ids_equal_transformers(
    drafted: tuple[Service, bool],
    draft_client: Client,
    tiny_model: TinyModel,
    prompts: list[list[int]],
    concurrency: int,
) -> None:
    requests = [ids_request(ids, LENGTH, "model", ignore_eos=True) for ids in prompts]
    streams = draft_client.generate_together(requests, concurrency)
    wanted = [tiny_model.greedy(ids, LENGTH, ignore_eos=True) for ids in prompts]
    assert [ids_of(responses) for responses in streams] == wanted
    knows_the_target = drafted[1]
    assert (share_accepted(streams) > 0.95) == knows_the_target
    if knows_the_target and concurrency == 1:  # streams beside others get flatter trees
        rounds = sum(responses[-1].speculation_report.rounds for responses in streams)
        assert rounds < len(prompts) * LENGTH / 3


def test_seeded_ids_do_not_depend_on_the_method(
    drafted: tuple[Service, bool], draft_client: Client, prompts: list[list[int]]
) -> None:
    runs = {}
    for method in ("model", "none"):
        requests = [
            ids_request(
                ids,
                LENGTH,
                method,
                ignore_eos=True,
                sampling=decoding_pb2.Sampling(temperature=1.0, top_p=0.95, seed=place),
            )
            for place, ids in enumerate(prompts)
        ]
        runs[method] = draft_client.generate_together(requests, 8)
    ids = {method: [ids_of(one) for one in streams] for method, streams in runs.items()}
    assert ids["model"] == ids["none"]
    # A model that knows the target knows its draws too.
    assert (share_accepted(runs["model"]) > 0.95) == drafted[1]


def test_a_request_may_name_the_method_and_others_are_refused(
    draft_client: Client, prompts: list[list[int]]
) -> None:
    model = draft_client.stub.GetModel(generation_pb2.GetModelRequest(), timeout=10)
    assert list(model.methods) == ["model", "ngram", "none"]
    assert model.default_method == "model"
    with pytest.raises(grpc.RpcError) as refusal:
        draft_client.generate(ids_request(prompts[0], 5, "hybrid"))
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "model, ngram, none" in (refusal.value.details() or "")


@pytest.mark.parametrize("drafted", ["another"], indirect=True)
def test_a_lost_verify_worker_changes_no_id(
    drafted: tuple[Service, bool],
    draft_client: Client,
    tiny_model: TinyModel,
    prompts: list[list[int]],
) -> None:
    length, supervisor = 150, drafted[0].process.pid
    requests = [ids_request(ids, length, "model", ignore_eos=True) for ids in prompts[:4]]
    victim = children(supervisor)["verify_service"]
    streams = [draft_client.start(request) for request in requests]
    first = next(streams[0])
    os.kill(victim, signal.SIGKILL)
    answers = [list(stream) for stream in streams]
    assert children(supervisor)["verify_service"] != victim, "the rest came from another one"
    wanted = [tiny_model.greedy(ids, length, ignore_eos=True) for ids in prompts[:4]]
    assert [ids_of(answer) for answer in ([first, *answers[0]], *answers[1:])] == wanted


def test_a_draft_model_with_another_vocabulary_is_refused(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    build_draft_model(tiny_model, tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace("<|user|>", "<|someone|>"))
    problem = r"does not fit --target .* 2 for '<\|someone\|>' here and '<\|user\|>' there"
    with pytest.raises(ServiceFailed, match=problem), Service(options(tiny_model, tmp_path)):
        pass
