"""`outrider generate` against a service of a few lines."""

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from grpc_status import rpc_status

from outrider.client import Tls as ClientTls
from outrider.generate import EXIT_FAILED, EXIT_INTERRUPTED, GenerateOptions, run_generate
from outrider.grpc_status import to_rich_status
from outrider.protocol.errors import InvalidField
from outrider.settings import BadSettings
from outrider.tls import Tls
from outrider.v1 import decoding_pb2, generation_pb2, generation_pb2_grpc
from tests.fakes.certificates import write_pair, write_tls_files


class Service(generation_pb2_grpc.GenerationServiceServicer):
    """Answers "Hello"; the prompt "refuse" is refused and "wait" is never answered."""

    def __init__(self) -> None:
        self.requests: list[generation_pb2.GenerateRequest] = []
        self.cancelled = threading.Event()
        self.keys: list[str] = []

    def _note(self, context: grpc.ServicerContext) -> None:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        self.keys.append(metadata.get("authorization", ""))

    def GetModel(
        self, request: generation_pb2.GetModelRequest, context: grpc.ServicerContext
    ) -> generation_pb2.GetModelResponse:
        self._note(context)
        return generation_pb2.GetModelResponse(has_chat_template=True)

    def Generate(
        self, request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        self.requests.append(request)
        self._note(context)
        context.add_callback(self.cancelled.set)
        if request.prompt == "refuse":
            refusal = to_rich_status(InvalidField("sampling.seed", "too large"))
            context.abort_with_status(rpc_status.to_status(refusal))
        yield generation_pb2.GenerateResponse(text="Hel", token_ids=[1, 2])
        if request.prompt == "wait":
            self.cancelled.wait()
            return
        yield generation_pb2.GenerateResponse(
            text="lo",
            token_ids=[3],
            finish_reason=decoding_pb2.FINISH_REASON_STOP,
            usage=generation_pb2.Usage(prompt_tokens=4, completion_tokens=3),
            speculation_report=decoding_pb2.SpeculationReport(rounds=2, method="ngram"),
        )


@contextmanager
def _serve(service: Service, tls: Tls | None = None) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(service, server)
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", tls.grpc_credentials())
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_the_answer_goes_to_stdout_and_the_report_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    service = Service()
    with _serve(service) as address:
        assert run_generate(address, GenerateOptions("hi", max_new_tokens=3)) == 0
    shown = capsys.readouterr()
    assert shown.out == "Hello\n"
    assert "3 (+ 4 of the prompt)" in shown.err
    assert service.requests[0].chat.messages[0].content == "hi"


def test_a_key_goes_with_every_call() -> None:
    service = Service()
    with _serve(service) as address:
        run_generate(address, GenerateOptions("hi", key="or-1"))
        run_generate(address, GenerateOptions("hi"))
    assert service.keys == ["Bearer or-1"] * 2 + [""] * 2


def test_it_speaks_tls_and_shows_its_own_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ca = trustme.CA()
    tls = Tls(write_tls_files(ca, tmp_path, clients=ca))
    (tmp_path / "client").mkdir()
    roots = tmp_path / "clients.pem"
    cert, key = write_pair(ca, tmp_path / "client")
    with _serve(Service(), tls) as address:
        options = GenerateOptions("hi", tls=ClientTls(roots, cert, key))
        assert run_generate(address, options) == 0
        assert run_generate(address, GenerateOptions("hi", tls=ClientTls(roots))) == EXIT_FAILED
        with pytest.raises(BadSettings, match=r"nowhere\.pem: No such file"):
            run_generate(address, GenerateOptions("hi", tls=ClientTls(Path("nowhere.pem"))))
    assert capsys.readouterr().out == "Hello\n"


def test_a_refusal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with _serve(Service()) as address:
        assert run_generate(address, GenerateOptions("refuse", chat=False)) == EXIT_FAILED
    assert capsys.readouterr().err == "outrider: INVALID_ARGUMENT: sampling.seed: too large\n"


def test_nobody_there_says_how_to_start_a_service(capsys: pytest.CaptureFixture[str]) -> None:
    with _serve(Service()) as address:
        pass
    assert run_generate(address, GenerateOptions("hi")) == EXIT_FAILED
    expected = f"outrider: no service at {address}; start one with `make serve`\n"
    assert capsys.readouterr().err == expected


def test_an_interrupt_cancels_the_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(text: str) -> None:
        if text == "Hel":
            raise KeyboardInterrupt

    monkeypatch.setattr("outrider.generate._writer", lambda: interrupt)
    service = Service()
    with _serve(service) as address:
        options = GenerateOptions("wait", chat=False)
        assert run_generate(address, options) == EXIT_INTERRUPTED
        assert service.cancelled.wait(10)
    assert "cancelled" in capsys.readouterr().err
