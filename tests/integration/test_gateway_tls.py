"""TLS on both listeners: who is trusted, which versions, certificates replaced in mid-stream."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import grpc
import httpx
import pytest
import trustme

from outrider.tls import Tls
from outrider.v1 import generation_pb2, generation_pb2_grpc
from tests.fakes.certificates import write_pair, write_tls_files
from tests.integration.gateway_stage import HOST, Stage, events, next_text, prompt, script, stage

pytestmark = pytest.mark.asyncio

BODY = {"prompt": "x", "stream": True}


def channel(on: Stage, ca: trustme.CA, client: trustme.LeafCert | None = None) -> grpc.aio.Channel:
    """A connection of its own that trusts this root."""
    key = client.private_key_pem.bytes() if client else None
    chain = client.cert_chain_pems[0].bytes() if client else None
    credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes(), key, chain)
    alone = (("grpc.use_local_subchannel_pool", 1),)
    return grpc.aio.secure_channel(f"{HOST}:{on.grpc_port}", credentials, options=alone)


def http_client(
    on: Stage, ca: trustme.CA, client: trustme.LeafCert | None = None
) -> httpx.AsyncClient:
    """The same over HTTP."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return httpx.AsyncClient(base_url=f"https://{HOST}:{on.http_port}", verify=context)


async def model_of(channel: grpc.aio.Channel) -> str:
    stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
        generation_pb2_grpc.GenerationServiceStub(channel)
    )
    return (await stub.GetModel(generation_pb2.GetModelRequest(), timeout=5)).model


async def is_let_in(on: Stage, ca: trustme.CA, client: trustme.LeafCert | None = None) -> bool:
    """True where both listeners answer; they must agree."""
    async with channel(on, ca, client) as over_grpc, http_client(on, ca, client) as http:
        try:
            by_grpc = await model_of(over_grpc) == "tiny"
        except grpc.aio.AioRpcError:
            by_grpc = False
        try:
            by_http = (await http.get("/v1/models")).status_code == 200
        except httpx.TransportError:
            by_http = False
    assert by_grpc == by_http
    return by_grpc


async def test_certificates_are_replaced_while_streams_go_on(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    tls = Tls(write_tls_files(old, tmp_path))
    async with (
        stage(script("abc", hold_after=1), tls=tls) as on,
        channel(on, old) as before,
        http_client(on, old) as http,
        http.stream("POST", "/generate", json=BODY) as response,
    ):
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(before)
        )
        call = stub.Generate(prompt())
        assert await next_text(call) == "a"
        assert not await is_let_in(on, new)
        write_pair(new, tmp_path)
        tls.reload()
        assert await is_let_in(on, new)
        assert not await is_let_in(on, old)
        on.drafting.release.set()
        assert [await next_text(call) for _ in range(3)] == ["b", "c", ""]
        assert await model_of(before) == "tiny"
        assert (await events(response))[-1] == "[DONE]"


async def test_clients_need_a_certificate_where_one_is_demanded(tmp_path: Path) -> None:
    ca, clients, strangers = trustme.CA(), trustme.CA(), trustme.CA()
    files = write_tls_files(ca, tmp_path, clients)
    tls = Tls(files)
    known = clients.issue_cert("client")
    async with stage(script("abc"), tls=tls) as on:
        assert await is_let_in(on, ca, known)
        assert not await is_let_in(on, ca)
        assert not await is_let_in(on, ca, strangers.issue_cert("client"))
        assert files.client_ca is not None
        files.client_ca.write_bytes(strangers.cert_pem.bytes())
        tls.reload()
        assert await is_let_in(on, ca, strangers.issue_cert("client"))
        assert not await is_let_in(on, ca, known)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_nothing_older_than_tls_1_2_is_spoken(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(context)
    context.set_ciphers("ALL:@SECLEVEL=0")  # else this side would refuse to speak it
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    async with stage(script("abc"), tls=Tls(write_tls_files(ca, tmp_path))) as on:
        for port in (on.grpc_port, on.http_port):
            try:
                _, writer = await asyncio.open_connection(HOST, port, ssl=context)
            except (ssl.SSLError, ConnectionResetError):
                is_spoken = False
            else:
                is_spoken = True
                writer.close()
            assert is_spoken == (version is ssl.TLSVersion.TLSv1_2)


async def test_plain_text_to_a_tls_port_is_closed_and_others_are_served(tmp_path: Path) -> None:
    ca = trustme.CA()
    async with stage(script("abc"), tls=Tls(write_tls_files(ca, tmp_path))) as on:
        for port in (on.grpc_port, on.http_port):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionResetError):
                    assert b"200" not in await reader.read()
            writer.close()
        assert await is_let_in(on, ca)
