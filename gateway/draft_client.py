"""The client of a draft worker: opens streams, and knows what is served there.

Shell: owns the channel. Every failure leaves as a typed error.
"""

from collections.abc import AsyncGenerator
from typing import Self

import grpc

from gateway.served_model import ServedModel
from gateway.tokenization import PromptTokenizer
from outrider.grpc_status import error_from_status, is_from_server
from outrider.protocol.errors import DeadlineExceeded, OutriderError, WorkerUnavailable
from outrider.v1 import drafting_pb2, drafting_pb2_grpc

MAX_MESSAGE_BYTES = 16 * 2**20
DESCRIBE_TIMEOUT_S = 1.0

_CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A restarted worker is on the same host or one hop away: try it again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class DraftClient:
    """One draft worker, as the gateway sees it. Close it with `close`.

    Args:
        address: host:port of the worker.
        tokenizer: Must fit the worker's target.
        model_name: Shown to clients instead of the worker's name for it, where not empty.
    """

    def __init__(self, address: str, tokenizer: PromptTokenizer, model_name: str = "") -> None:
        self._address = address
        self._tokenizer = tokenizer
        self._model_name = model_name
        self._channel = grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
        self._stub: drafting_pb2_grpc.DraftingServiceAsyncStub = (
            drafting_pb2_grpc.DraftingServiceStub(self._channel)
        )
        self._model: ServedModel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all calls and frees the connection."""
        await self._channel.close()

    async def model(self) -> ServedModel:
        """What is served, as last heard; asks where nothing is known.

        Raises:
            WorkerUnavailable: The worker, or the verify worker behind it, does not answer.
            Mismatch: The worker serves another model than the gateway's folder holds.
        """
        return self._model or await self.ask_model()

    async def ask_model(self) -> ServedModel:
        """Asks the worker what it serves, and remembers it for `model`.

        Raises:
            WorkerUnavailable: As for `model`.
            Mismatch: As for `model`.
        """
        try:
            self._model = await self._ask_model()
        except OutriderError:
            self._model = None
            raise
        return self._model

    async def _ask_model(self) -> ServedModel:
        try:
            worker = await self._stub.GetWorker(
                drafting_pb2.GetWorkerRequest(), timeout=DESCRIBE_TIMEOUT_S
            )
        except grpc.aio.AioRpcError as error:
            raise self._unavailable(error) from None
        model = ServedModel.from_worker(worker, self._model_name)
        model.check_tokenizer(
            self._tokenizer.token_id_end,
            self._tokenizer.vocab_size,
            self._tokenizer.fingerprint,
        )
        return model

    async def draft(
        self, request: drafting_pb2.DraftRequest, timeout_s: float, traceparent: str
    ) -> AsyncGenerator[drafting_pb2.DraftResponse, None]:
        """Runs one placement of a stream; closing the generator cancels it on the worker.

        Args:
            request: The placement.
            timeout_s: Time left, seconds.
            traceparent: W3C context of the request's span, or "".

        Yields:
            What each round committed.

        Raises:
            OutriderError: As the worker ended the call.
        """
        metadata = (("traceparent", traceparent),) if traceparent else ()
        call = self._stub.Draft(request, timeout=timeout_s, metadata=metadata)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                self._model = None
            raise self._translate(error) from None
        finally:
            call.cancel()

    def _unavailable(self, error: grpc.aio.AioRpcError) -> OutriderError:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return WorkerUnavailable(
                f"the draft worker at {self._address} did not answer in {DESCRIBE_TIMEOUT_S:g} s"
            )
        return self._translate(error)

    def _translate(self, error: grpc.aio.AioRpcError) -> OutriderError:
        if error.code() is grpc.StatusCode.UNAVAILABLE and not is_from_server(error):
            return WorkerUnavailable(f"no draft worker answers at {self._address}")
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and not is_from_server(error):
            return DeadlineExceeded("the deadline passed before the answer was complete")
        return error_from_status(error)
