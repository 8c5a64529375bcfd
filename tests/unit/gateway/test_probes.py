"""The probe listener: who is alive may still have nobody to serve with."""

from typing import cast

import httpx
import pytest

from gateway.probes import create_probe_app
from gateway.readiness import Readiness
from outrider.telemetry.metrics import GatewayMetrics


class _WithoutWorkers:
    reason = "no draft worker answers"


@pytest.mark.asyncio
async def test_a_gateway_without_workers_lives() -> None:
    """Else it would be restarted again and again while its workers load."""
    app = create_probe_app(cast(Readiness, _WithoutWorkers()), GatewayMetrics())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://probe") as client:
        assert (await client.get("/live")).status_code == 200
        health = await client.get("/health")
    assert (health.status_code, health.json()["reason"]) == (503, "no draft worker answers")
