"""Serves the page's files. Knows no request and no model: the page is a client like any other.

The files are for everybody, as they hold nothing; what the page asks for needs a key like all else.
"""

from importlib.resources import files

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE = files("gateway.playground") / "page"
MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # Nothing from elsewhere, nothing inline, no frames, and no text that becomes code.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def add_playground(app: FastAPI) -> None:
    """Adds the page at `/` and its files below `/playground/`.

    Args:
        app: To add them to.
    """
    for file in PAGE.iterdir():
        path = "/" if file.name == "index.html" else f"/playground/{file.name}"
        app.router.routes.append(_route(path, file.name, file.read_bytes()))


def _route(path: str, name: str, content: bytes) -> Route:
    media_type = MEDIA_TYPES["." + name.rpartition(".")[2]]

    async def send(_: Request) -> Response:
        return Response(content, media_type=media_type, headers=HEADERS)

    return Route(path, send, include_in_schema=False)
