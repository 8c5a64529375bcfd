"""The listener of a worker's metrics: Prometheus reads them over HTTP, with a token where one is
set. Knows nothing of what is counted, nor of where the token comes from.
"""

import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

READ_TIMEOUT_S = 10.0  # of a connection that says nothing; each one has a thread
CHALLENGE = 'Bearer realm="metrics"'  # of WWW-Authenticate, with status 401
NO_TOKEN = "send the token of --metrics-token-file: Authorization: Bearer TOKEN\n"

Admits = Callable[[str], bool]
"""Whether a header `Authorization` ("" where there is none) lets its sender in."""


class MetricsServer:
    """The running listener; whoever started it closes it."""

    def __init__(self, server: ThreadingWSGIServer) -> None:
        self._server = server

    @property
    def port(self) -> int:
        """Port that is bound, also where 0 was asked for."""
        return self._server.server_port

    def close(self) -> None:
        """Stops answering and frees the port."""
        self._server.shutdown()
        self._server.server_close()


def start_metrics_server(
    registry: CollectorRegistry, host: str, port: int, admits: Admits | None = None
) -> MetricsServer:
    """Answers `GET /metrics` from daemon threads.

    Args:
        registry: What to show.
        host: Address to bind.
        port: Port to bind; 0 takes a free one.
        admits: Who may read; None: everybody.

    Returns:
        The listener.

    Raises:
        OSError: The port is taken or not allowed.
    """
    app: WSGIApplication = make_wsgi_app(registry)
    if admits is not None:
        app = _guarded(app, admits)
    kind = _ServerV6 if ":" in host else ThreadingWSGIServer
    server = make_server(host, port, app, kind, _Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return MetricsServer(server)


class _ServerV6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = READ_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing of who read."""


def _guarded(app: "WSGIApplication", admits: Admits) -> "WSGIApplication":
    def guard(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if admits(environ.get("HTTP_AUTHORIZATION", "")):
            return app(environ, start_response)
        headers = [("WWW-Authenticate", CHALLENGE), ("Content-Type", "text/plain")]
        start_response("401 Unauthorized", headers)
        return [NO_TOKEN.encode()]

    return guard
