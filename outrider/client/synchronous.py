"""The client for programs without an event loop. One connection; safe to share between threads."""

from collections.abc import Generator
from typing import Self, Unpack, cast

import grpc

from outrider.client.answers import Answer, Chunk, Model, collect
from outrider.client.connection import CHANNEL_OPTIONS, DEFAULT_ADDRESS, Tls, key_metadata
from outrider.client.failures import failure_of
from outrider.client.fields import RequestFields, build_request, check_single
from outrider.grpc_status import FailedCall
from outrider.protocol.errors import OutriderError
from outrider.v1 import generation_pb2, generation_pb2_grpc


class Client:
    """Asks one service. Close it with `close`, or use it as a context.

    Args:
        address: host:port of the gateway's gRPC listener.
        api_key: Sent with each call; "": none.
        tls: Certificates; None: no TLS.
        timeout_s: Time of a call that names none, seconds; None: as long as the service allows.

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
            grpc.insecure_channel(address, CHANNEL_OPTIONS)
            if tls is None
            else grpc.secure_channel(address, tls.credentials(), CHANNEL_OPTIONS)
        )
        self._stub = generation_pb2_grpc.GenerationServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all calls and frees the connection."""
        self._channel.close()

    def model(self, *, timeout_s: float | None = None) -> Model:
        """What is served.

        Args:
            timeout_s: Time of this call, seconds.

        Raises:
            OutriderError: The service cannot say.
        """
        request = generation_pb2.GetModelRequest()
        try:
            answer = self._stub.GetModel(
                request, timeout=self._timeout(timeout_s), metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise self._failure(error) from None
        return Model.from_proto(answer)

    def generate(
        self, *, timeout_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> Generator[Chunk, None, None]:
        """Streams what each round adds; closing the generator cancels the request.

        Args:
            timeout_s: Time until the last chunk, seconds.
            fields: What to ask for.

        Returns:
            The chunks. The request is sent when the first one is asked for.

        Raises:
            OutriderError: It was refused or failed; `InvalidField` names the field, `NoCapacity`
                may say in `retry_after_s` when to try again.
        """
        return self._chunks(build_request(fields), timeout_s)

    def complete(
        self, *, timeout_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> Answer:
        """The whole answer; for several (`n`), `collect` the chunks of `generate`.

        Args:
            timeout_s: Time until it is there, seconds.
            fields: What to ask for.

        Raises:
            OutriderError: As for `generate`.
        """
        check_single(fields)
        (answer,) = collect(self.generate(timeout_s=timeout_s, **fields))
        return answer

    def _chunks(
        self, request: generation_pb2.GenerateRequest, timeout_s: float | None
    ) -> Generator[Chunk, None, None]:
        call = self._stub.Generate(
            request, timeout=self._timeout(timeout_s), metadata=self._metadata
        )
        try:
            for message in call:
                yield Chunk.from_proto(message)
        except grpc.RpcError as error:
            raise self._failure(error) from None
        finally:
            call.cancel()  # of a finished call: nothing

    def _timeout(self, timeout_s: float | None) -> float | None:
        return self._timeout_s if timeout_s is None else timeout_s

    def _failure(self, error: grpc.RpcError) -> OutriderError:
        # The error of a call is the call itself; the type hints do not know that.
        return failure_of(cast(FailedCall, error), self._address)
