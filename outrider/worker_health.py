"""The health port of a worker: what an orchestrator asks, over gRPC, in clear, and nothing else.

Shell: owns a listener and a thread that asks the worker again and again. Both are apart from the
worker's own loop, so that they answer while it loads a model, and tell the truth when it hangs.

    ""       the same as `live`
    live     the worker's loop turns, or has not begun to; else it is better started anew
    ready    it takes new sessions

Probes check; nobody watches. The library's own servicer sends to watchers under a lock that the
server's thread wants when one of them goes, and both then wait for ever.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

LIVE = "live"
READY = "ready"
INTERVAL_S = 0.2  # between two questions to the worker
DEAD_AFTER_S = 10.0  # a turn that takes so much longer than it may, and the worker is not live

_THREADS = 2  # calls are short
_MAX_REQUEST_BYTES = 4096
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", _MAX_REQUEST_BYTES),
    ("grpc.max_metadata_size", _MAX_REQUEST_BYTES),
)

Asks = Callable[[], bool]


class _Probes(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # it has no hints
    """Answers probes with what is shown, by service."""

    def __init__(self) -> None:
        self.shown: dict[str, bool] = {}

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """How a service is."""
        is_well = self.shown.get(request.service)
        if is_well is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there are {LIVE} and {READY}")
        statuses = health_pb2.HealthCheckResponse
        return statuses(status=statuses.SERVING if is_well else statuses.NOT_SERVING)

    def Watch(self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext) -> None:
        """Refused: see above."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "ask with Check, again and again")


class WorkerHealth:
    """At first live, and not ready; heard from outside between `listen` and `close` only."""

    def __init__(self) -> None:
        self._probes = _Probes()
        # Held while an answer is found and shown; a signal's handler may come in between.
        self._lock = threading.RLock()
        self._is_live: Asks = lambda: True
        self._is_ready: Asks = lambda: False
        self._closing = threading.Event()
        self._running = ExitStack()

    def listen(self, host: str, port: int) -> int:
        """Begins to answer.

        Args:
            host: Address to bind.
            port: Port to bind; 0 takes a free one.

        Returns:
            The port.

        Raises:
            OSError: The port cannot be bound.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        pool = self._running.enter_context(ThreadPoolExecutor(_THREADS, "health"))
        server = grpc.server(pool, options=_OPTIONS)
        self._running.callback(lambda: server.stop(0).wait())
        health_pb2_grpc.add_HealthServicer_to_server(self._probes, server)
        try:
            bound = server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"{address} cannot be bound; is it in use?") from error
        self._look()
        server.start()
        watch = threading.Thread(target=self._watch, name="health", daemon=True)
        watch.start()
        self._running.callback(watch.join)
        self._running.callback(self._closing.set)
        return bound

    def follow(self, is_live: Asks, is_ready: Asks) -> None:
        """From now on the worker itself is asked, in another thread; neither may block."""
        with self._lock:
            self._is_live, self._is_ready = is_live, is_ready

    def drain(self) -> None:
        """From now on, and at once, not ready; also from a signal's handler."""
        with self._lock:
            self._is_ready = lambda: False
            self._look()

    def close(self) -> None:
        """Stops answering."""
        self._running.close()

    def _watch(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        is_live = self._is_live()
        self._probes.shown = {"": is_live, LIVE: is_live, READY: self._is_ready()}
