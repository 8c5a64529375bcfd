"""Both clients against a gateway on real sockets."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent import futures
from contextlib import aclosing, closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from outrider.api_keys import Access, make_key
from outrider.client import (
    AsyncClient,
    Chunk,
    Client,
    DeadlineExceeded,
    FinishReason,
    InvalidField,
    NoCapacity,
    ServiceUnreachable,
    Tls,
    Unauthenticated,
    collect,
)
from outrider.key_file import key_line, read_api_keys
from outrider.v1 import generation_pb2_grpc
from tests.integration.gateway_stage import HOST, PATIENCE_S, script, stage
from tests.integration.test_generate import Service
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of

KEY = make_key()
ACCESS = Access(read_api_keys(key_line("alice", KEY)))


class Awaited:
    """The client for threads, with the methods of the other one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._client = Client(*args, **options)

    async def __aenter__(self) -> "Awaited":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    async def model(self, **options: Any) -> Any:
        return await asyncio.to_thread(self._client.model, **options)

    async def complete(self, **fields: Any) -> Any:
        return await asyncio.to_thread(self._client.complete, **fields)

    async def generate(self, **fields: Any) -> AsyncGenerator[Chunk, None]:
        with closing(self._client.generate(**fields)) as chunks:
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk


@pytest.fixture(params=[AsyncClient, Awaited])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes a client of either kind."""
    return request.param


@pytest.mark.asyncio
async def test_the_model_and_a_whole_answer(make: Any) -> None:
    async with (
        stage(script("hello world🙂", block_size=2)) as on,
        make(f"{HOST}:{on.grpc_port}") as client,
    ):
        model = await client.model()
        assert (model.model, model.methods, model.max_nodes) == ("tiny", ("none", "ngram"), 32)
        answer = await client.complete(
            prompt="hello", logprobs=True, request_id="mine", report_rounds=True
        )
        assert answer.text == "hello world🙂"
        assert answer.token_ids == (*ids_of("hello world🙂"), EOS_ID)
        assert len(answer.log_probs) == len(answer.token_ids)
        assert (answer.finish_reason, answer.request_id) == (FinishReason.STOP, "mine")
        assert answer.usage.completion_tokens == len(answer.token_ids)
        assert answer.report.rounds == len(answer.rounds)
        assert "".join(t for one in answer.rounds for t in one.token_texts) == answer.text


@pytest.mark.asyncio
async def test_chunks_come_as_they_are_made_and_closing_cancels(make: Any) -> None:
    async with (
        stage(script("abc", hold_after=2)) as on,
        make(f"{HOST}:{on.grpc_port}") as client,
    ):
        async with aclosing(client.generate(chat="hi")) as chunks:
            assert [(await anext(chunks)).text, (await anext(chunks)).text] == ["a", "b"]
            await on.drafting.wait_for_open(1)
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 1


@pytest.mark.asyncio
async def test_several_answers(make: Any) -> None:
    async with stage(script("abc")) as on, make(f"{HOST}:{on.grpc_port}") as client:
        chunks = [chunk async for chunk in client.generate(prompt="hello", n=2)]
        assert [(one.choice, one.text) for one in collect(chunks)] == [(0, "abc"), (1, "abc")]
        with pytest.raises(InvalidField, match="n: "):
            await client.complete(prompt="hello", n=2)


@pytest.mark.asyncio
async def test_refusals_name_the_field_and_deadlines_hold(make: Any) -> None:
    async with (
        stage(script("abc", hold_after=1)) as on,
        make(f"{HOST}:{on.grpc_port}", timeout_s=PATIENCE_S) as client,
    ):
        with pytest.raises(InvalidField) as caught:
            await client.complete(prompt="hello", method="magic")
        assert caught.value.field == "speculation.method"
        with pytest.raises(InvalidField) as caught:
            await client.complete(prompt="hello", seed=-1)
        assert caught.value.field == "seed"
        with pytest.raises(DeadlineExceeded):
            await client.complete(prompt="hello", timeout_s=0.1)
        await on.drafting.wait_for_open(0)


@pytest.mark.asyncio
async def test_a_full_house_says_when_to_come_again(make: Any) -> None:
    async with (
        stage(script("abc", hold_after=1), max_running=1, max_queued=0) as on,
        make(f"{HOST}:{on.grpc_port}") as client,
        aclosing(client.generate(prompt="hello")) as chunks,
    ):
        await anext(chunks)
        with pytest.raises(NoCapacity) as caught:
            await client.complete(prompt="hello")
        assert caught.value.retry_after_s is not None
        assert caught.value.retry_after_s >= 1


@pytest.mark.asyncio
async def test_a_key_opens(make: Any) -> None:
    async with stage(script("abc"), access=ACCESS) as on:
        address = f"{HOST}:{on.grpc_port}"
        async with make(address) as stranger:
            with pytest.raises(Unauthenticated):
                await stranger.complete(prompt="hello")
            with pytest.raises(Unauthenticated):
                await stranger.model()
        async with make(address, api_key=KEY) as alice:
            assert (await alice.complete(prompt="hello")).text == "abc"


@pytest.mark.asyncio
async def test_nobody_there(make: Any) -> None:
    async with stage(script("abc")) as on:
        address = f"{HOST}:{on.grpc_port}"
    async with make(address) as client:
        with pytest.raises(ServiceUnreachable, match=address):
            await client.model()
        with pytest.raises(ServiceUnreachable, match=address):
            await client.complete(prompt="hello")


@contextmanager
def _secure_service(folder: Path) -> Iterator[str]:
    """A service that shows a certificate, and asks clients for one."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    server_cert, client_cert = ca.issue_cert("localhost"), ca.issue_cert("client")
    client_cert.private_key_pem.write_to_path(str(folder / "client.key"))
    client_cert.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    credentials = grpc.ssl_server_credentials(
        [(server_cert.private_key_pem.bytes(), server_cert.cert_chain_pems[0].bytes())],
        ca.cert_pem.bytes(),
        require_client_auth=True,
    )
    server = grpc.server(futures.ThreadPoolExecutor(2))
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(Service(), server)
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    yield f"localhost:{port}"
    server.stop(None).wait()


@pytest.mark.asyncio
async def test_certificates_of_both_sides(make: Any, tmp_path: Path) -> None:
    with _secure_service(tmp_path) as address:
        whole = Tls(tmp_path / "ca.pem", tmp_path / "client.pem", tmp_path / "client.key")
        async with make(address, tls=whole) as client:
            assert (await client.complete(prompt="hi")).text == "Hello"
        async with make(address, tls=Tls(tmp_path / "ca.pem")) as nobody:
            with pytest.raises(ServiceUnreachable):
                await nobody.complete(prompt="hi")


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValueError, match="together"):
        Tls(cert=Path("client.pem"))
