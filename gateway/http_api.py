"""The HTTP API put together: routes, errors in one shape, health and metrics."""

from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gateway.approaches import http_approach
from gateway.http_calls import HttpCalls
from gateway.http_errors import CLIENT_CLOSED_REQUEST, HttpError, error_response, http_error
from gateway.openai_routes import add_openai_routes
from gateway.own_routes import add_own_routes
from gateway.probes import health_response, metrics_response
from gateway.readiness import Readiness
from gateway.tgi_routes import TgiRoutes
from gateway.waiting import ClientGone
from outrider.api_keys import Permission
from outrider.protocol.errors import InternalFailure, OutriderError
from outrider.telemetry.metrics import GatewayMetrics


def create_app(calls: HttpCalls, readiness: Readiness, metrics: GatewayMetrics) -> FastAPI:
    """Builds the HTTP API.

    Args:
        calls: Leads from requests to answers; its guard also lets in who asks for metrics.
        readiness: Answers /health, which is for everybody.
        metrics: Shown at /metrics.

    Returns:
        An ASGI application.
    """
    # With the scripts of /docs served from here: no other host is asked, and none has a say.
    app = FastAPIOffline(redoc_url=None, title="Outrider", version=version("outrider"))
    _add_error_handlers(app)
    tgi_routes = TgiRoutes(calls)
    add_own_routes(app, calls, tgi_routes)
    tgi_routes.add_to(app)
    add_openai_routes(app, calls)

    @app.head("/health", include_in_schema=False)  # what some load balancers ask
    @app.get("/health")
    async def health() -> JSONResponse:
        """200 where a request can be served now, else 503 and why not."""
        return health_response(readiness)

    @app.get("/metrics")
    async def show_metrics(request: Request) -> Response:
        """All metrics in the Prometheus or OpenMetrics text form."""
        calls.guard.admit(http_approach(request), Permission.METRICS)
        return metrics_response(request, metrics)

    return app


def _add_error_handlers(app: FastAPI) -> None:
    async def on_typed(request: Request, error: Exception) -> Response:
        assert isinstance(error, OutriderError)
        return error_response(http_error(error))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpError)
        return error_response(error)

    async def on_routing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        response = error_response(HttpError(error.status_code, code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response

    async def on_gone(request: Request, error: Exception) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def on_unknown(request: Request, error: Exception) -> Response:
        return error_response(http_error(InternalFailure("internal error")))

    app.add_exception_handler(OutriderError, on_typed)
    app.add_exception_handler(HttpError, on_http)
    app.add_exception_handler(HTTPException, on_routing)
    app.add_exception_handler(ClientGone, on_gone)
    app.add_exception_handler(Exception, on_unknown)
