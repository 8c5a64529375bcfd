"""What watches a gateway asks: whether it can serve, and its metrics. Knows no requests.

`create_probe_app` answers the same on a listener of its own, without TLS and keys, for watchers on
this machine or in its pod; to those from elsewhere it shows metrics for a token only. Its /live
says only that the event loop turns, for whoever restarts what hangs.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gateway.readiness import Readiness
from outrider.telemetry.metrics import GatewayMetrics, render
from outrider.telemetry.metrics_listener import CHALLENGE, NO_TOKEN, Admits


def health_response(readiness: Readiness) -> JSONResponse:
    """200 where a request can be served now, else 503 and why not."""
    if readiness.reason:
        body = {"status": "not_serving", "reason": readiness.reason}
        return JSONResponse(body, status_code=503)
    return JSONResponse({"status": "serving"})


def metrics_response(request: Request, metrics: GatewayMetrics) -> Response:
    """All metrics in the form that is asked for."""
    data, content_type = render(metrics.registry, request.headers.get("accept", ""))
    return Response(data, headers={"Content-Type": content_type})


def create_probe_app(
    readiness: Readiness, metrics: GatewayMetrics, admits: Admits | None = None
) -> Starlette:
    """Builds the application of the probe listener.

    Args:
        readiness: Answers /health.
        metrics: Shown at /metrics.
        admits: Who may read them; None: everybody.
    """

    async def health(request: Request) -> Response:
        return health_response(readiness)

    async def show_metrics(request: Request) -> Response:
        if admits is not None and not admits(request.headers.get("authorization", "")):
            return PlainTextResponse(NO_TOKEN, 401, {"WWW-Authenticate": CHALLENGE})
        return metrics_response(request, metrics)

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "live"})

    routes = [Route("/health", health), Route("/live", live), Route("/metrics", show_metrics)]
    return Starlette(routes=routes)
