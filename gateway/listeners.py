"""The two public listeners of the gateway, gRPC and HTTP, in one event loop.

Shell: owns the sockets. Each starts, tells its port, and stops within a grace period.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import uvicorn
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from starlette.types import ASGIApp

from gateway.contained_app import ContainedApp
from gateway.http_connection import HttpServer
from gateway.interceptors import ErrorInterceptor
from gateway.servicer import GenerationServicer
from gateway.well_formed_app import MAX_HEADER_BYTES, WellFormedApp
from outrider.tls import Tls
from outrider.v1 import generation_pb2, generation_pb2_grpc

SERVICE = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
MAX_CALLS = 1000  # at once on one gRPC connection, those counted that were just taken back
SEND_BUFFER_BYTES = 32 * 2**10
READ_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 10.0

_SERVER_OPTIONS = (
    ("grpc.so_reuseport", 0),  # else a second gateway would silently share the port
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.max_metadata_size", 16 * 2**10),
    ("grpc.max_concurrent_streams", MAX_CALLS),
    # Calls that wait to be seen. From there on the runtime cancels any, of whichever client.
    ("grpc.server.max_pending_requests", 20 * MAX_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", 60 * MAX_CALLS),
)


class PortTaken(OSError):
    """A listener could not be bound; the message names the address."""


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """What a gRPC connection may do.

    Args:
        max_request_bytes: Largest message.
        send_timeout_s: How long a client may take to greet, seconds.
        connection_age_s: Age at which it takes no new calls, seconds; 0: any.
        max_deadline_s: What its calls are given then, seconds.
    """

    max_request_bytes: int
    send_timeout_s: float = SEND_TIMEOUT_S
    connection_age_s: float = 0.0
    max_deadline_s: float = 600.0

    @property
    def options(self) -> list[tuple[str, int]]:
        """As gRPC's server takes them."""
        options = [
            ("grpc.max_receive_message_length", self.max_request_bytes),
            ("grpc.server_handshake_timeout_ms", round(self.send_timeout_s * 1000)),
        ]
        if self.connection_age_s:  # the runtime spreads it by a tenth, so that not all come at once
            options += [
                ("grpc.max_connection_age_ms", round(self.connection_age_s * 1000)),
                ("grpc.max_connection_age_grace_ms", round(self.max_deadline_s * 1000)),
            ]
        return options


class GrpcListener:
    """Generation, health and reflection over gRPC.

    Args:
        servicer: Answers requests; health and reflection are for everybody.
        reflection_enabled: True: clients may ask for the descriptors.
        limits: Of each connection.
        tls: Certificates; None: no TLS.
    """

    def __init__(
        self,
        servicer: GenerationServicer,
        reflection_enabled: bool,
        limits: GrpcLimits,
        tls: Tls | None = None,
    ) -> None:
        self._tls = tls
        options = (*_SERVER_OPTIONS, *limits.options)
        self._server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=options)
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(servicer, self._server)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._reflection_enabled = reflection_enabled
        self._services = [SERVICE]

    def add_service(self, name: str, register: Callable[[grpc.aio.Server], None]) -> None:
        """Serves another service too; before `start`.

        Args:
            name: In full.
            register: Adds it to the server.
        """
        register(self._server)
        self._services.append(name)

    async def start(self, host: str, port: int) -> int:
        """Begins to listen, not yet serving in the words of the health service.

        Returns:
            The port.

        Raises:
            PortTaken: The address cannot be bound.
        """
        await self.show_readiness("starting")
        if self._reflection_enabled:
            names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        try:
            address = _address(host, port)
            if self._tls is None:
                bound = self._server.add_insecure_port(address)
            else:
                bound = self._server.add_secure_port(address, self._tls.grpc_credentials())
        except RuntimeError:
            raise PortTaken(
                f"gRPC cannot listen on {_address(host, port)}: is it in use?"
            ) from None
        await self._server.start()
        return bound

    async def show_readiness(self, reason: str) -> None:
        """Sets the answer of the health service, per service and as a whole.

        Args:
            reason: Why requests cannot be served; "" where they can.
        """
        statuses = health_pb2.HealthCheckResponse
        status = statuses.NOT_SERVING if reason else statuses.SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls, and ends those that still run after the grace period."""
        await self._server.stop(grace_s)


class HttpListener:
    """The HTTP API.

    Args:
        app: The application.
        tls: Certificates; None: no TLS.
        read_timeout_s: How long what a client does not read is kept for it, seconds.
        send_timeout_s: How long a client may take to shake hands, and to send the head of a
            request, seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        tls: Tls | None = None,
        read_timeout_s: float = READ_TIMEOUT_S,
        send_timeout_s: float = SEND_TIMEOUT_S,
    ) -> None:
        config = uvicorn.Config(
            ContainedApp(WellFormedApp(app)),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # whom to believe is the guard's business
            ssl_context_factory=None if tls is None else lambda *_: tls.http_context(),
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        self._server = HttpServer(config, send_timeout_s)
        self._config = config
        self._read_timeout_s = read_timeout_s
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Begins to listen.

        Returns:
            The port.

        Raises:
            PortTaken: The address cannot be bound.
        """
        try:
            bound = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
            )
        except OSError as error:
            raise PortTaken(
                f"HTTP cannot listen on {_address(host, port)}: {error.strerror}"
            ) from None
        _prepare(bound, self._read_timeout_s)
        self._task = asyncio.create_task(self._server.serve([bound]), name="http")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise RuntimeError("the HTTP server ended while it was starting")
            await asyncio.sleep(0.01)
        return int(bound.getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections, and ends requests that still run after the grace period."""
        if self._task is None:
            return
        # uvicorn knows whole seconds, and takes 0 for "no limit".
        self._config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        await self._task


def _prepare(listening: socket.socket, read_timeout_s: float) -> None:
    """Sets what all connections inherit: no delay, and little that waits unread in the kernel."""
    # asyncio does so only for sockets that name their protocol. Without it, each small write
    # behind another one waits 40 ms for the client's kernel to acknowledge that.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    if sys.platform == "linux":
        # A connection that is closed waits until its last bytes are read: for ever, without this.
        # Twice the time, so that the stream ends first and its record says why.
        timeout_ms = round(2 * read_timeout_s * 1000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
