"""The client of one draft worker: runs streams there, and asks what it serves.

Shell: owns the channel. Every failure leaves as a typed error; where streams go is decided in
`worker_table.py`.
"""

import asyncio
from collections.abc import AsyncGenerator

import grpc

from gateway.draft_tls import DraftTls, connection_problem
from gateway.served_model import ServedModel
from gateway.tokenization import PromptTokenizer
from outrider.grpc_status import error_from_status, is_from_server
from outrider.protocol.errors import DeadlineExceeded, OutriderError, WorkerUnavailable
from outrider.v1 import drafting_pb2, drafting_pb2_grpc

MAX_MESSAGE_BYTES = 16 * 2**20
LOOKAHEAD_BYTES = 4096
RETIRING_S = 600.0  # what running streams get where a connection is made anew

_CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Of a stream whose client does not read, so much waits here; by default the window grows to
    # 4 MiB a stream, which is 70,000 rounds that nobody reads.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", LOOKAHEAD_BYTES),
    # A restarted worker is on the same host or one hop away: try it again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_Call = grpc.aio.UnaryStreamCall[drafting_pb2.DraftRequest, drafting_pb2.DraftResponse]


class WorkerSilent(WorkerUnavailable):
    """A worker takes connections and says nothing: it hangs, and its streams with it."""


class DraftClient:
    """One draft worker, as the gateway sees it. Close it with `close`.

    Args:
        address: host:port of the worker.
        tokenizer: Must fit the worker's target.
        answer_timeout_s: Silence after which a question counts as unanswered, seconds.
        model_name: Shown to clients instead of the worker's name for it, where not empty.
        tls: Opens its channel; None: no TLS.
    """

    def __init__(
        self,
        address: str,
        tokenizer: PromptTokenizer,
        answer_timeout_s: float,
        model_name: str = "",
        tls: DraftTls | None = None,
    ) -> None:
        self._address = address
        self._tokenizer = tokenizer
        self._answer_timeout_s = answer_timeout_s
        self._model_name = model_name
        self._tls = tls
        self._calls: set[_Call] = set()
        self._retired: dict[grpc.aio.Channel, asyncio.Task[None]] = {}
        self._connect()

    async def close(self, grace_s: float | None = None) -> None:
        """Frees the connection.

        Args:
            grace_s: Time that running streams get to end, seconds; None: they are cut off.
        """
        channels = (self._channel, *self._retired)
        await asyncio.gather(*(channel.close(grace_s) for channel in channels))
        await asyncio.gather(*self._retired.values())

    def renew(self) -> None:
        """Connects anew, with the newest certificate; streams that run end where they are."""
        old = self._channel
        self._connect()
        self._retired[old] = asyncio.create_task(old.close(RETIRING_S))
        self._retired[old].add_done_callback(lambda _: self._retired.pop(old))

    def _connect(self) -> None:
        if self._tls is not None:
            self._channel = self._tls.channel(self._address, _CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS)
        self._stub: drafting_pb2_grpc.DraftingServiceAsyncStub = (
            drafting_pb2_grpc.DraftingServiceStub(self._channel)
        )

    async def describe(self) -> ServedModel:
        """Asks the worker what it serves.

        Raises:
            WorkerSilent: It does not answer in time.
            WorkerUnavailable: It, or the verify worker behind it, is not there.
            Mismatch: It serves another model than the gateway's folder holds.
        """
        try:
            worker = await self._stub.GetWorker(
                drafting_pb2.GetWorkerRequest(), timeout=self._answer_timeout_s
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise WorkerSilent(
                    f"the draft worker at {self._address} did not answer in "
                    f"{self._answer_timeout_s:g} s"
                ) from None
            raise self._translate(error) from None
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
            OutriderError: As the worker ended the call; `WorkerUnavailable` where it did so for
                reasons of its own, and the stream may go on elsewhere.
        """
        metadata = (("traceparent", traceparent),) if traceparent else ()
        call = self._stub.Draft(request, timeout=timeout_s, metadata=metadata)
        self._calls.add(call)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise self._translate(error) from None
        except asyncio.CancelledError:
            if call in self._calls:
                raise
            raise WorkerSilent(f"the draft worker at {self._address} hangs") from None
        finally:
            self._calls.discard(call)
            call.cancel()

    def abandon(self) -> None:
        """Ends all streams here with `WorkerSilent`; the worker frees them when it wakes up."""
        calls, self._calls = self._calls, set()
        for call in calls:
            call.cancel()

    def _translate(self, error: grpc.aio.AioRpcError) -> OutriderError:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.INTERNAL if not is_from_server(
                error
            ):
                reason = connection_problem(error.details() or "", self._tls is not None)
                text = f"no draft worker answers at {self._address}"
                return WorkerUnavailable(f"{text}: {reason}" if reason else text)
            case grpc.StatusCode.DEADLINE_EXCEEDED if not is_from_server(error):
                return DeadlineExceeded("the deadline passed before the answer was complete")
            case grpc.StatusCode.CANCELLED:  # a server that stops cancels what runs too long
                return WorkerUnavailable(f"the draft worker at {self._address} is shutting down")
        return error_from_status(error)
