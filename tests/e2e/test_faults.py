"""A worker dies, and the service comes back; one Ctrl-C ends all of it (B45)."""

import os
import signal
from collections.abc import Iterator

import grpc
import pytest

from outrider.evaluation.service import Service, ServiceOptions
from tests.e2e.processes import children, is_running, wait_for
from tests.e2e.streams import Client, Responses, ids_of, ids_request
from tests.e2e.tiny_model import SENTENCES, TinyModel

RESTART_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def mortal(tiny_options: ServiceOptions) -> Iterator[Service]:
    """A service that this module's tests may break."""
    with Service(tiny_options) as service:
        yield service


def answer(service: Service, prompt_ids: list[int]) -> Responses | None:
    """None while the service refuses for want of a worker."""
    client = Client(service.address)
    try:
        return client.generate(ids_request(prompt_ids, 12, ignore_eos=True))
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        return None
    finally:
        client.close()


@pytest.mark.parametrize("victim", ["draft_service", "verify_service", "gateway"])
def test_a_killed_process_is_started_again_and_answers(
    mortal: Service, tiny_model: TinyModel, victim: str
) -> None:
    prompt_ids = tiny_model.chat_ids(SENTENCES[0])
    before = children(mortal.process.pid)
    os.kill(before[victim], signal.SIGKILL)

    def restarted() -> int | None:
        pid = children(mortal.process.pid).get(victim)
        return pid if pid != before[victim] else None

    wait_for("a new process", restarted, RESTART_TIMEOUT_S)
    responses = wait_for("an answer", lambda: answer(mortal, prompt_ids), RESTART_TIMEOUT_S)
    assert ids_of(responses) == tiny_model.greedy(prompt_ids, 12, ignore_eos=True)
    after = children(mortal.process.pid)
    assert {name: pid for name, pid in after.items() if name != victim} == {
        name: pid for name, pid in before.items() if name != victim
    }


def test_one_ctrl_c_ends_all_processes(mortal: Service) -> None:
    """The last test of this module: nothing is left of the service."""
    pids = children(mortal.process.pid)
    assert len(pids) == 3
    mortal.process.send_signal(signal.SIGINT)
    assert mortal.process.wait(timeout=20) == 0
    wait_for("no orphans", lambda: not any(is_running(pid) for pid in pids.values()))


def test_a_service_does_not_outlive_the_command_that_started_it(
    tiny_options: ServiceOptions,
) -> None:
    with Service(tiny_options) as service:
        pids = children(service.process.pid)
        assert len(pids) == 3
        assert service.process.stdin is not None
        service.process.stdin.close()  # what the kernel does for a process that was killed
        assert service.process.wait(timeout=20) == 0
        wait_for("no orphans", lambda: not any(is_running(pid) for pid in pids.values()))
