"""The last thing that an error of an HTTP request comes to: it is logged and goes no further.

The server would log its text, which may quote a prompt.
"""

import logging

from starlette.types import ASGIApp, Receive, Scope, Send

from outrider.telemetry.logging import origin

_logger = logging.getLogger(__name__)


class ContainedApp:
    """An application whose errors stay inside; it has answered with an error where it could.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            _logger.error("an HTTP request failed unexpectedly: %s", origin(error))
