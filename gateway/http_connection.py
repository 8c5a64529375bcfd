"""HTTP connections: what never becomes a request is answered in words, and in time.

The server waits for ever for a head, or for a body that nobody reads; this does not. Where a route
reads a body, the time is `body_reader.py`'s business.
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.http_errors import HttpError, error_body


class HttpConnection(H11Protocol):
    """Closes a connection whose client lets it wait.

    Args:
        send_timeout_s: How long a client may take to send a head, or the rest of a body that
            nobody reads, seconds.
        server: What the server says of itself to its connections.
    """

    def __init__(self, send_timeout_s: float, **server: Any) -> None:
        super().__init__(**server)
        self._send_timeout_s = send_timeout_s
        self._deadline: asyncio.TimerHandle | None = None
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Takes what has come, and goes on waiting where that was not all."""
        if self._is_refused:
            return  # read and thrown away: a reset would take the answer from the client
        super().data_received(data)
        if self._is_waiting:
            self._wait()
        elif not self._is_refused:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, with the status that its error says."""
        error = sys.exception()  # called where it was caught
        if getattr(error, "error_status_hint", 400) == 431:
            self._refuse(HttpError(431, "headers_too_large", "the headers are too large"))
        else:
            self._refuse(HttpError(400, "bad_request", "this is not a valid HTTP request"))

    def _should_upgrade(self) -> bool:
        """Never: a client that offers another protocol is answered in this one."""
        return False

    @property
    def _is_waiting(self) -> bool:
        """True where a head has begun, or where a body goes on whose request is answered."""
        theirs, ours = self.conn.their_state, self.conn.our_state
        if theirs is h11.IDLE:
            return bool(self.conn.trailing_data[0])
        return theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._send_timeout_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_refused and self.conn.trailing_data[0]:
            text = f"the head did not arrive within {self._send_timeout_s:g} s"
            self._refuse(HttpError(408, "request_timeout", text))
        else:
            self.transport.close()

    def _refuse(self, error: HttpError) -> None:
        """Answers, where nothing is being answered yet, and says no more."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(error_body(error)).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            for event in (
                h11.Response(status_code=error.status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self._is_refused = True
        if self.cycle is not None:
            self.cycle.disconnected = True  # who waits for the rest of a body waits no more
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._stop_waiting()
            self._wait()
        else:
            self.transport.close()


class HttpServer(uvicorn.Server):
    """Opens such connections itself: uvicorn has no bound for what comes before a request.

    Args:
        config: Of the server.
        send_timeout_s: As for a connection; it has as long for its TLS handshake.
    """

    def __init__(self, config: uvicorn.Config, send_timeout_s: float) -> None:
        super().__init__(config)
        self._send_timeout_s = send_timeout_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""

        def connect() -> HttpConnection:
            return HttpConnection(
                self._send_timeout_s,
                config=self.config,
                server_state=self.server_state,
                app_state={},
            )

        tls = self.config.ssl
        self.servers = [
            await asyncio.get_running_loop().create_server(
                connect,
                sock=listening,
                ssl=tls,
                ssl_handshake_timeout=self._send_timeout_s if tls is not None else None,
                backlog=self.config.backlog,
            )
            for listening in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process's composition root."""
        yield
