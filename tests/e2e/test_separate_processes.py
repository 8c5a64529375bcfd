"""Each service alone by `python -m`, over loopback TCP, with no supervisor."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from outrider import health
from outrider.evaluation.service import free_ports, wait_until_served
from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.streams import Client, ids_of, ids_request
from tests.e2e.tiny_model import TinyModel

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0


@contextmanager
def running(log: Path, module: str, **flags: object) -> Iterator["subprocess.Popen[bytes]"]:
    """A service's process; told to end by SIGTERM, it must do so with status 0."""
    words = [
        w for name, value in flags.items() for w in ("--" + name.replace("_", "-"), str(value))
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | TINY_ENVIRONMENT,
        )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_TIMEOUT_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def test_three_commands_make_a_service_even_if_the_gateway_comes_first(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    grpc_port, http_port, draft_port, verify_port, metrics_1, metrics_2 = free_ports(6)
    endpoint = f"tcp://127.0.0.1:{verify_port}"
    with ExitStack() as stack:
        gateway = stack.enter_context(
            running(
                tmp_path / "gateway.log",
                "gateway",
                model=tiny_model.folder,
                draft_addresses=f"127.0.0.1:{draft_port}",
                grpc_port=grpc_port,
                http_port=http_port,
            )
        )
        stack.enter_context(
            running(
                tmp_path / "draft.log",
                "draft_service",
                verify_endpoints=endpoint,
                grpc_port=draft_port,
                metrics_port=metrics_1,
                default_method="ngram",
            )
        )
        stack.enter_context(
            running(
                tmp_path / "verify.log",
                "verify_service",
                model=tiny_model.folder,
                endpoint=endpoint,
                dtype="float32",
                metrics_port=metrics_2,
                threads=1,
            )
        )
        wait_until_served(f"127.0.0.1:{grpc_port}", gateway, START_TIMEOUT_S)
        client = Client(f"127.0.0.1:{grpc_port}")
        stack.callback(client.close)
        cycle = tiny_model.cycle()
        responses = client.generate(ids_request(cycle.prompt_ids, 20, "", ignore_eos=True))
        assert ids_of(responses) == cycle.next_ids[:20]
        report = responses[-1].speculation_report
        assert report.method == "ngram"
        assert report.accepted > 0


def test_a_verify_worker_that_still_loads_ends_when_it_is_told_to(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    """Its health port answers first, then it loads; SIGTERM, and `running` wants status 0."""
    metrics_port, health_port = free_ports(2)
    log = tmp_path / "verify.log"
    flags = {"model": tiny_model.folder, "metrics_port": metrics_port, "health_port": health_port}
    with running(log, "verify_service", endpoint=f"ipc://{tmp_path}/verify.sock", **flags):
        deadline = time.monotonic() + START_TIMEOUT_S
        while health.ask(f"127.0.0.1:{health_port}", "live"):
            assert time.monotonic() < deadline, log.read_text()
    assert "ready" not in log.read_text()
