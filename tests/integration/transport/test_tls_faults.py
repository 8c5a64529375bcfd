"""Faults before a TLS connection is one (FAULTS 49 and 56); streams on others go on."""

from pathlib import Path

import grpc
import pytest
import trustme

from outrider.tls import Tls
from tests.fakes.certificates import write_tls_files
from tests.integration.gateway_stage import HOST, stage
from tests.integration.healthy_stream import HealthyStream, PacedDrafting
from tests.integration.transport.http_cases import CLIENT_HELLO
from tests.integration.transport.raw_http import connection, head
from tests.integration.transport.raw_http2 import PREFACE, SETTINGS, frame

pytestmark = pytest.mark.asyncio

CASES = [
    ("49 HTTP without TLS", head("GET", "/health")),
    ("49 HTTP/2 without TLS", PREFACE + frame(SETTINGS)),
    ("49 noise", bytes(range(256)) * 10),
    ("49 a greeting of nothing", CLIENT_HELLO),
    ("56 half a greeting", CLIENT_HELLO[:20]),
    ("56 nothing at all", b""),
]


async def test_what_is_no_tls_is_closed_and_the_stream_beside_it_stays_exact(
    tmp_path: Path,
) -> None:
    ca, drafting = trustme.CA(), PacedDrafting()
    credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes())
    tls = Tls(write_tls_files(ca, tmp_path))
    async with stage(drafting, tls=tls, send_timeout_s=0.3) as on:
        address = f"{HOST}:{on.grpc_port}"
        async with grpc.aio.secure_channel(address, credentials) as channel:
            healthy = HealthyStream(channel, drafting)
            await healthy.goes_on("the first")
            for name, said in CASES:
                for port in (on.grpc_port, on.http_port):
                    assert b"200" not in await _until_closed(port, said), name
                    await healthy.goes_on(name)
            await healthy.ends()


async def _until_closed(port: int, said: bytes) -> bytes:
    async with connection(port) as wire:
        await wire.send(said)
        return await wire.reader.read()
