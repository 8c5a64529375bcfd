"""The gRPC listener as a client sees it. Decides nothing: `verdicts.py` says what is good."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.client import InvalidField, Model, Tls
from outrider.client.connection import CHANNEL_OPTIONS, key_metadata
from outrider.evaluation.client import KeyedStub
from outrider.going_live.verdicts import Refusal
from outrider.grpc_status import error_from_status
from outrider.v1 import generation_pb2, generation_pb2_grpc

TIMEOUT_S = 10.0
SERVICE = "outrider.v1.GenerationService"

# The type exists in the generated stubs' .pyi only.
Stub: TypeAlias = "generation_pb2_grpc.GenerationServiceAsyncStub"


class GrpcSide:
    """One gRPC listener; made by `open_grpc`.

    Args:
        channel: To it.
        api_key: Sent with each request; "": none.
    """

    def __init__(self, channel: grpc.aio.Channel, api_key: str) -> None:
        self._health = health_pb2_grpc.HealthStub(channel)
        self._stub: Stub = generation_pb2_grpc.GenerationServiceStub(channel)
        self._metadata = key_metadata(api_key)
        self.stub = KeyedStub(self._stub, self._metadata)

    async def health(self) -> str:
        """Name of the service's status; "" where the health service does not answer.

        Raises:
            grpc.aio.AioRpcError: The listener cannot be reached.
        """
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        try:
            answer = await self._health.Check(request, timeout=TIMEOUT_S, wait_for_ready=False)
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                return ""
            raise
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    async def model(self) -> Model:
        """What is served.

        Raises:
            grpc.aio.AioRpcError: It does not say.
        """
        request = generation_pb2.GetModelRequest()
        answer = await self._stub.GetModel(request, timeout=TIMEOUT_S, metadata=self._metadata)
        return Model.from_proto(answer)

    async def refused(
        self, request: generation_pb2.GenerateRequest, api_key: str | None = None
    ) -> Refusal:
        """How a request is refused.

        Args:
            request: The request.
            api_key: Instead of the right one; "": none.
        """
        metadata = self._metadata if api_key is None else key_metadata(api_key)
        call = self._stub.Generate(request, timeout=TIMEOUT_S, metadata=metadata)
        try:
            async for _ in call:
                pass
        except grpc.aio.AioRpcError as error:
            known = error_from_status(error)
            field = known.field if isinstance(known, InvalidField) else ""
            return Refusal(error.code().name, field)
        return Refusal("OK")


@asynccontextmanager
async def open_grpc(address: str, api_key: str, tls: Tls | None) -> AsyncIterator[GrpcSide]:
    """The way to a listener, whether one is there or not.

    Raises:
        OSError: A file of `tls` cannot be read.
    """
    channel = (
        grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
        if tls is None
        else grpc.aio.secure_channel(address, tls.credentials(), CHANNEL_OPTIONS)
    )
    async with channel:
        yield GrpcSide(channel, api_key)
