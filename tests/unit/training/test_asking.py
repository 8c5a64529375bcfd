"""Many questions at once, and patience with a service that is away for a while."""

from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from outrider.evaluation.client import AskFailed
from outrider.training import asking
from outrider.training.asking import Question, ask_all
from tests.unit.training.fake_service import FakeStub


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(asking, "RETRY_AFTER_S", (0.0, 0.0))


def serve(monkeypatch, stub):
    @asynccontextmanager
    async def connect(address):
        assert address == "here:1"
        yield stub

    monkeypatch.setattr(asking, "connect", connect)


def questions(count):
    return [Question(str(i), [i, i + 1], 4, 0.5, 7, 100 + i, [9]) for i in range(count)]


def test_each_question_is_asked_once_with_all_it_says(monkeypatch):
    stub = FakeStub()
    serve(monkeypatch, stub)
    answers = {}
    ask_all("here:1", questions(10), 3, "ngram", lambda q, a: answers.update({q.key: a.token_ids}))
    assert len(answers) == 10
    assert stub.most_running == 3
    request = stub.requests[4]
    assert list(request.token_ids.ids) == [4, 5]
    assert request.limits.max_new_tokens == 4
    assert list(request.limits.stop_token_ids) == [9]
    assert request.sampling.temperature == 0.5
    assert request.sampling.top_k == 7
    assert request.sampling.seed == 104
    assert request.speculation.method == "ngram"


def test_a_request_that_fails_is_asked_again(monkeypatch):
    stub = FakeStub(failures=[grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
    serve(monkeypatch, stub)
    keys = []
    ask_all("here:1", questions(2), 1, "", lambda question, answer: keys.append(question.key))
    assert keys == ["0", "1"]
    assert len(stub.requests) == 4


def test_patience_ends(monkeypatch):
    serve(monkeypatch, FakeStub(failures=[grpc.StatusCode.UNAVAILABLE] * 9))
    with pytest.raises(AskFailed, match="UNAVAILABLE"):
        ask_all("here:1", questions(2), 2, "", lambda *_: None)


def test_what_is_refused_is_not_asked_again(monkeypatch):
    stub = FakeStub(failures=[grpc.StatusCode.INVALID_ARGUMENT])
    serve(monkeypatch, stub)
    with pytest.raises(AskFailed, match="INVALID_ARGUMENT"):
        ask_all("here:1", questions(1), 1, "", lambda *_: None)
    assert len(stub.requests) == 1
