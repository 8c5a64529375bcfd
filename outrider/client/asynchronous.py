"""The client for programs with an event loop; the same as the other one, awaited."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Self, Unpack

import grpc.aio

from outrider.client.answers import Answer, Chunk, Model, collect
from outrider.client.connection import CHANNEL_OPTIONS, DEFAULT_ADDRESS, Tls, key_metadata
from outrider.client.failures import failure_of
from outrider.client.fields import RequestFields, build_request, check_single
from outrider.v1 import generation_pb2, generation_pb2_grpc

if TYPE_CHECKING:  # it exists in the hints of the stubs only
    from outrider.v1.generation_pb2_grpc import GenerationServiceAsyncStub


class AsyncClient:
    """Asks one service. Made in a running loop; close it with `close`, or use it as a context.

    Args:
        address: As for `Client`.
        api_key: The same.
        tls: The same.
        timeout_s: The same.

    Raises:
        OSError: A file of `tls` cannot be read.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        api_key: str = "",
        tls: Tls | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._address, self._timeout_s = address, timeout_s
        self._metadata = key_metadata(api_key)
        self._channel = (
            grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(address, tls.credentials(), CHANNEL_OPTIONS)
        )
        self._stub: GenerationServiceAsyncStub = generation_pb2_grpc.GenerationServiceStub(
            self._channel
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all calls and frees the connection."""
        await self._channel.close()

    async def model(self, *, timeout_s: float | None = None) -> Model:
        """As `Client.model`."""
        request = generation_pb2.GetModelRequest()
        try:
            answer = await self._stub.GetModel(
                request, timeout=self._timeout(timeout_s), metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            raise failure_of(error, self._address) from None
        return Model.from_proto(answer)

    def generate(
        self, *, timeout_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> AsyncGenerator[Chunk, None]:
        """As `Client.generate`; a generator not read to its end needs `contextlib.aclosing`."""
        return self._chunks(build_request(fields), timeout_s)

    async def complete(
        self, *, timeout_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> Answer:
        """As `Client.complete`."""
        check_single(fields)
        async with aclosing(self.generate(timeout_s=timeout_s, **fields)) as chunks:
            (answer,) = collect([chunk async for chunk in chunks])
        return answer

    async def _chunks(
        self, request: generation_pb2.GenerateRequest, timeout_s: float | None
    ) -> AsyncGenerator[Chunk, None]:
        call = self._stub.Generate(
            request, timeout=self._timeout(timeout_s), metadata=self._metadata
        )
        try:
            async for message in call:
                yield Chunk.from_proto(message)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error, self._address) from None
        finally:
            call.cancel()  # of a finished call: nothing

    def _timeout(self, timeout_s: float | None) -> float | None:
        return self._timeout_s if timeout_s is None else timeout_s
