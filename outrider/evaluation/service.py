"""Starts the three processes with `outrider up` on free ports, for one measurement or test.

Owns the supervisor's process: whoever enters the context owns its end. Takes no decisions.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.supervised import SUPERVISED_VARIABLE

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
ASK_TIMEOUT_S = 2.0
POLL_S = 0.1
LOG_TAIL = 4000


class ServiceFailed(Exception):
    """The service did not start; the message ends with what it wrote."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What to serve.

    Args:
        model: Folder or hub name.
        dtype: Of the target.
        threads: Of the target; 0: its own choice.
        environment: Added to this process's own.
        draft_model: As `outrider up` reads it; "": none.
    """

    model: str
    dtype: str = "float32"
    threads: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    draft_model: str = ""


class Service:
    """A service that runs while the context is open.

    Args:
        options: What to serve.
    """

    def __init__(self, options: ServiceOptions) -> None:
        self.options = options
        ports = free_ports(5)
        self.grpc_port, self.http_port, self._draft_port = ports[:3]
        self.draft_metrics_port, self.verify_metrics_port = ports[3:]
        self._log = tempfile.NamedTemporaryFile(prefix="outrider-", suffix=".log")  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """gRPC address of the gateway."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def http_url(self) -> str:
        """Root of the gateway's HTTP API."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The supervisor."""
        if self._process is None:
            raise RuntimeError("the service has not been started")
        return self._process

    def written(self) -> str:
        """All that the processes have written so far."""
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command(),
            env=os.environ | self._environment(),
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.PIPE,  # its end tells the supervisor that this process is gone
            # A Ctrl-C in our terminal must reach the supervisor once, from us.
            start_new_session=True,
        )
        try:
            wait_until_served(self.address, self._process, START_TIMEOUT_S)
        except BaseException as error:
            written = self.written()[-LOG_TAIL:]
            self.stop()
            self._log.close()
            if isinstance(error, TimeoutError | ChildProcessError):
                raise ServiceFailed(f"{error}:\n{written}") from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            sys.stderr.write(self.written()[-LOG_TAIL:])
        self.stop()
        self._log.close()

    def stop(self) -> int:
        """Ends the service as one Ctrl-C does; kills what has not ended in time.

        Returns:
            Exit status of the supervisor.
        """
        if self.process.poll() is None:
            self._ask_to_end()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()
        finally:
            if self.process.stdin is not None:
                self.process.stdin.close()

    def _ask_to_end(self) -> None:
        if sys.platform != "win32":
            self.process.send_signal(signal.SIGINT)
        elif self.process.stdin is not None:
            self.process.stdin.close()  # it takes that for the end of this process

    def _command(self) -> list[str]:
        draft_model = self.options.draft_model
        return [
            *(sys.executable, "-m", "outrider.cli", "up"),
            *("--model", self.options.model, "--dtype", self.options.dtype),
            *("--grpc-port", str(self.grpc_port), "--http-port", str(self.http_port)),
            *(("--draft-model", draft_model) if draft_model else ()),
        ]

    def _environment(self) -> dict[str, str]:
        values = {
            SUPERVISED_VARIABLE: "1",
            "OUTRIDER_DRAFT_GRPC_PORT": str(self._draft_port),
            "OUTRIDER_DRAFT_METRICS_PORT": str(self.draft_metrics_port),
            "OUTRIDER_VERIFY_METRICS_PORT": str(self.verify_metrics_port),
        }
        if self.options.threads:
            values["OUTRIDER_VERIFY_THREADS"] = str(self.options.threads)
        return values | dict(self.options.environment)


def wait_until_served(address: str, process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Waits until the gateway's health says that it serves.

    Raises:
        TimeoutError: It does not in time.
        ChildProcessError: The process ended before.
    """
    deadline = time.monotonic() + timeout_s
    request = health_pb2.HealthCheckRequest(service="outrider.v1.GenerationService")
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise ChildProcessError(f"the service ended with status {process.returncode}")
            with suppress(grpc.RpcError):
                answer = stub.Check(request, timeout=ASK_TIMEOUT_S)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            time.sleep(POLL_S)
    raise TimeoutError(f"the service did not answer within {timeout_s:g} seconds")


def end_with_sigterm() -> None:
    """Makes SIGTERM end this process as an error does, so that its service is not left behind."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def free_ports(count: int) -> list[int]:
    """Loopback TCP ports that nobody listened on a moment ago, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
