"""A target in parts over two processes: the same text, and one end for all of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.evaluation.service import Service, ServiceOptions, free_ports
from outrider.v1 import decoding_pb2
from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.processes import children, is_running, wait_for
from tests.e2e.streams import Client, ids_of, ids_request
from tests.e2e.test_faults import RESTART_TIMEOUT_S, answer
from tests.e2e.tiny_model import SENTENCES, TinyModel

pytestmark = pytest.mark.timeout(300)  # ranks share the cores

ON_CPUS = {"CUDA_VISIBLE_DEVICES": ""}  # a machine may have fewer GPUs than there are ranks here
LENGTH = 40
METHODS = ("none", "ngram")
START_TIMEOUT_S = 90.0
END_TIMEOUT_S = 40.0  # torchrun gives its processes 30 s before it kills them


@pytest.fixture(scope="module")
def in_parts(tiny_options: ServiceOptions) -> Iterator[Service]:
    """The three services, with two ranks behind the verify worker."""
    environment = {**tiny_options.environment, **ON_CPUS, "OUTRIDER_VERIFY_TENSOR_PARALLEL": "2"}
    with Service(replace(tiny_options, environment=environment)) as service:
        yield service


def test_ids_are_those_of_plain_decoding(in_parts: Service, tiny_model: TinyModel) -> None:
    """Greedy against `transformers` alone; sampled across methods and batches."""
    chats = [tiny_model.chat_ids(sentence) for sentence in SENTENCES]
    prompts = [*chats, tiny_model.cycle().prompt_ids, chats[1] + chats[2]]
    sampled = [decoding_pb2.Sampling(temperature=1.0, seed=seed) for seed in range(len(prompts))]
    client = Client(in_parts.address)
    found, accepted = {}, dict.fromkeys(METHODS, 0)
    for method in METHODS:
        for concurrency in (1, 8):
            requests = [
                ids_request(ids, LENGTH, method, ignore_eos=True, sampling=sampling)
                for sampling_of in ([None] * len(prompts), sampled)
                for ids, sampling in zip(prompts, sampling_of, strict=True)
            ]
            streams = client.generate_together(requests, concurrency)
            found[method, concurrency] = [ids_of(responses) for responses in streams]
            accepted[method] += sum(one[-1].speculation_report.accepted for one in streams)
    client.close()
    greedy = [tiny_model.greedy(ids, LENGTH, ignore_eos=True) for ids in prompts]
    assert found["none", 1][: len(prompts)] == greedy
    assert all(ids == found["none", 1] for ids in found.values())
    assert accepted["ngram"] > accepted["none"] == 0


def test_a_killed_rank_takes_the_worker_with_it_and_both_come_back(
    in_parts: Service, tiny_model: TinyModel
) -> None:
    prompt_ids = tiny_model.chat_ids(SENTENCES[0])
    worker = children(in_parts.process.pid)["verify_service"]
    other = children(worker)["verify_service"]
    client = Client(in_parts.address)
    running = client.start(ids_request(prompt_ids, 200, "none", ignore_eos=True))
    next(iter(running))  # passes are being run, and the first rank waits for the other in each
    os.kill(other, signal.SIGKILL)
    wait_for("the end of the worker", lambda: not is_running(worker))
    running.cancel()
    client.close()
    assert "the target cannot go on" in in_parts.written()
    responses = wait_for("an answer", lambda: answer(in_parts, prompt_ids), RESTART_TIMEOUT_S)
    assert ids_of(responses) == tiny_model.greedy(prompt_ids, 12, ignore_eos=True)
    again = children(in_parts.process.pid)["verify_service"]
    assert set(children(again)) == {"verify_service"}


def test_one_ctrl_c_ends_all_ranks(in_parts: Service) -> None:
    """The last test of this service: nothing is left of it."""
    pids = [*children(in_parts.process.pid).values()]
    pids += [pid for worker in pids for pid in children(worker).values()]
    assert len(pids) == 4
    in_parts.process.send_signal(signal.SIGINT)
    assert in_parts.process.wait(timeout=20) == 0
    assert not any(is_running(pid) for pid in pids)
    assert "killed" not in in_parts.written()


@pytest.fixture
def torchrun(tiny_model: TinyModel, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Two ranks that torchrun has started, ready to serve; they write to `log` in `tmp_path`."""
    (port,) = free_ports(1)
    words = [
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "verify_service", "--model", str(tiny_model.folder), "--dtype", "float32"),
        *("--endpoint", f"tcp://127.0.0.1:{port}", "--metrics-port", "0"),
    ]
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | TINY_ENVIRONMENT | ON_CPUS | {"OMP_NUM_THREADS": "1"},
        )
        stack.callback(process.wait)
        stack.callback(process.kill)

        def is_ready() -> bool:
            text = (tmp_path / "log").read_text()
            assert process.poll() is None, text
            return "ready: " in text

        wait_for("two ranks", is_ready, START_TIMEOUT_S)
        yield process


def ranks_of(torchrun: "subprocess.Popen[bytes]") -> dict[int, int]:
    """Process ids of the ranks."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == torchrun.pid:
                words = (folder / "environ").read_text().split("\0")
                variables = dict(word.split("=", 1) for word in words if "=" in word)
                found[int(variables["RANK"])] = int(folder.name)
        except (OSError, ValueError, KeyError):
            continue
    return found


@pytest.mark.parametrize("victim", [0, 1])
def test_torchrun_ends_with_an_error_where_a_rank_is_killed(
    torchrun: "subprocess.Popen[bytes]", tmp_path: Path, victim: int
) -> None:
    pids = ranks_of(torchrun)
    os.kill(pids[victim], signal.SIGKILL)
    assert torchrun.wait(END_TIMEOUT_S) == 1
    assert not any(is_running(pid) for pid in pids.values())
    text = (tmp_path / "log").read_text()
    assert "SIGKILL" in text
    assert "another rank of the target is gone; the target cannot go on" in text
