"""A draft head served for real: its streams are those of the target alone, and a useless one is
refused before anybody is served with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from outrider.evaluation.service import Service, ServiceFailed, ServiceOptions
from outrider.modeling.heads.checkpoints import LoadedHead, TargetFiles
from outrider.modeling.heads.checkpoints.head_format import HeadNotes
from outrider.modeling.heads.checkpoints.write import write_head
from outrider.modeling.heads.head_config import HeadKind
from outrider.training.initial_head import head_config, initial_head
from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.streams import Client, ids_of, ids_request, seeded_requests
from tests.e2e.tiny_model import SENTENCES, TinyModel

LENGTH = 40
METHODS = ("eagle3", "hybrid")


def write_tiny_head(tiny_model: TinyModel, folder: Path, *, from_target: bool) -> Path:
    """An untrained head: of the target's own last layer, or of random numbers."""
    files = TargetFiles(tiny_model.folder)
    config = head_config(files, HeadKind.EAGLE3, (0, 1, 2), files.vocab_size)
    ids = torch.arange(files.vocab_size)
    head = initial_head(config, files, ids, from_target, seed=3)
    tensors = dict(head.tensors)
    if not from_target:
        tensors = {
            n: torch.randn(t.shape) if t.is_floating_point() else t for n, t in tensors.items()
        }
    write_head(
        LoadedHead(config, tensors, "safeailab", HeadNotes(dtype="float32")), "safeailab", folder
    )
    return folder


@pytest.fixture(scope="module")
def head_client(
    tiny_model: TinyModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    head = write_tiny_head(tiny_model, tmp_path_factory.mktemp("head"), from_target=True)
    environment = TINY_ENVIRONMENT | {
        "OUTRIDER_DRAFT_HEAD": str(head),
        "OUTRIDER_DRAFT_TARGET": str(tiny_model.folder),
        "OUTRIDER_DRAFT_CANARY": "false",  # it has learnt nothing
        "OUTRIDER_DRAFT_FULL_TREES": "true",  # else it rests: the tiny target is too fast for it
    }
    with Service(ServiceOptions(str(tiny_model.folder), "float32", 1, environment)) as service:
        client = Client(service.address)
        yield client
        client.close()


@pytest.fixture(scope="module")
def prompts(tiny_model: TinyModel) -> list[list[int]]:
    chats = [tiny_model.chat_ids(sentence) for sentence in SENTENCES]
    return [*chats, tiny_model.cycle().prompt_ids, chats[1] + chats[2], chats[3][:7]]


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("method", METHODS)
def test_greedy_ids_equal_transformers(
    head_client: Client,
    tiny_model: TinyModel,
    prompts: list[list[int]],
    method: str,
    concurrency: int,
) -> None:
    requests = [ids_request(ids, LENGTH, method, ignore_eos=True) for ids in prompts]
    streams = head_client.generate_together(requests, concurrency)
    wanted = [tiny_model.greedy(ids, LENGTH, ignore_eos=True) for ids in prompts]
    assert [ids_of(responses) for responses in streams] == wanted
    reports = [responses[-1].speculation_report for responses in streams]
    assert {report.method for report in reports} == {method}
    assert sum(report.drafted for report in reports) > 0
    assert sum(sum(report.offered_by_depth[:1]) for report in reports) > 0


def test_seeded_ids_do_not_depend_on_the_method(
    head_client: Client, prompts: list[list[int]]
) -> None:
    runs = {}
    for method in (*METHODS, "none"):
        requests = seeded_requests(prompts, LENGTH, method)
        streams = head_client.generate_together(requests, 8)
        runs[method] = [ids_of(responses) for responses in streams]
    assert runs["eagle3"] == runs["hybrid"] == runs["none"]


def test_a_head_of_random_numbers_is_refused_with_its_figure(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    head = write_tiny_head(tiny_model, tmp_path, from_target=False)
    environment = TINY_ENVIRONMENT | {
        "OUTRIDER_DRAFT_HEAD": str(head),
        "OUTRIDER_DRAFT_TARGET": str(tiny_model.folder),
    }
    options = ServiceOptions(str(tiny_model.folder), "float32", 1, environment)
    with pytest.raises(ServiceFailed, match="10% is the least"), Service(options):
        pass
