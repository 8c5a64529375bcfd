"""What a user sees first: a ready service that answers over gRPC and HTTP."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from outrider.evaluation.service import Service
from outrider.v1 import generation_pb2
from tests.e2e.processes import children, mapped_files, wait_for
from tests.e2e.streams import Client, ids_of, ids_request
from tests.e2e.tiny_model import CONTEXT_LIMIT, SENTENCES, TinyModel

SERVICE = "outrider.v1.GenerationService"


def post(service: Service, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = Request(
        service.http_url + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


def test_the_ready_line_names_both_addresses_and_what_to_try(service: Service) -> None:
    ready = wait_for("the ready line", lambda: re.search("ready.*", service.written(), re.S))
    assert service.address in ready[0]
    assert f"127.0.0.1:{service.http_port}" in ready[0]
    assert "curl" in ready[0]


def test_health_is_serving_over_grpc_and_http(service: Service, client: Client) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    for name in ("", SERVICE):
        status = stub.Check(health_pb2.HealthCheckRequest(service=name)).status
        assert status == health_pb2.HealthCheckResponse.SERVING
    with urlopen(f"{service.http_url}/health", timeout=5) as response:
        assert response.status == 200


def test_the_model_is_described(client: Client, tiny_model: TinyModel) -> None:
    model = client.stub.GetModel(generation_pb2.GetModelRequest())
    assert model.context_limit == CONTEXT_LIMIT
    assert model.vocab_size == tiny_model.network.config.vocab_size
    assert sorted(model.eos_token_ids) == sorted(tiny_model.network.config.eos_token_id)
    assert {"none", "ngram"} <= set(model.methods)
    assert model.has_chat_template


def test_a_posted_prompt_is_answered(service: Service, tiny_model: TinyModel) -> None:
    prompt = SENTENCES[1]
    answer = post(service, "/generate", {"prompt": prompt, "limits": {"max_new_tokens": 12}})
    prompt_ids = tiny_model.tokenizer(prompt)["input_ids"]
    assert answer["text"] == tiny_model.text(tiny_model.greedy(prompt_ids, 12))


def test_three_processes_run_and_the_gateway_has_no_torch(service: Service) -> None:
    running = children(service.process.pid)
    assert set(running) == {"gateway", "draft_service", "verify_service"}
    assert "libtorch" in mapped_files(running["verify_service"])
    assert "libtorch" not in mapped_files(running["gateway"])
    assert "libtorch" not in mapped_files(running["draft_service"])


def test_a_chat_is_rendered_with_the_models_template(client: Client, tiny_model: TinyModel) -> None:
    message = generation_pb2.ChatMessage(role="user", content=SENTENCES[2])
    request = ids_request([0], 10)
    request.chat.messages.append(message)
    responses = client.generate(request)
    prompt_ids = tiny_model.chat_ids(SENTENCES[2])
    assert ids_of(responses) == tiny_model.greedy(prompt_ids, 10)
    assert responses[-1].usage.prompt_tokens == len(prompt_ids)


def test_a_client_built_from_reflection_alone_streams_tokens_one_by_one(
    service: Service, tiny_model: TinyModel
) -> None:
    with grpc.insecure_channel(service.address) as channel:
        pool = _reflected_pool(channel)
        method = pool.FindServiceByName(SERVICE).FindMethodByName("Generate")
        request_class = message_factory.GetMessageClass(method.input_type)
        response_class = message_factory.GetMessageClass(method.output_type)
        generate = channel.unary_stream(
            f"/{SERVICE}/Generate",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        request: Any = request_class()
        request.prompt = SENTENCES[3]
        request.limits.max_new_tokens = 9
        request.limits.ignore_eos = True
        request.speculation.method = "none"
        responses: list[Any] = list(generate(request, timeout=30))
    counts = [len(response.token_ids) for response in responses if response.token_ids]
    assert counts == [1] * 9
    prompt_ids = tiny_model.tokenizer(SENTENCES[3])["input_ids"]
    assert ids_of(responses) == tiny_model.greedy(prompt_ids, 9, ignore_eos=True)


def _reflected_pool(channel: grpc.Channel) -> descriptor_pool.DescriptorPool:
    """A pool of its own, filled only with what the server says about itself."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def files(request: reflection_pb2.ServerReflectionRequest) -> Iterator[bytes]:
        [response] = stub.ServerReflectionInfo(iter([request]))
        yield from response.file_descriptor_response.file_descriptor_proto

    def add(blob: bytes) -> None:
        file = descriptor_pb2.FileDescriptorProto.FromString(blob)
        if file.name in added:
            return
        added.add(file.name)
        for dependency in file.dependency:
            by_name = reflection_pb2.ServerReflectionRequest(file_by_filename=dependency)
            for found in files(by_name):
                add(found)
        pool.AddSerializedFile(blob)

    by_symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
    for blob in files(by_symbol):
        add(blob)
    return pool


def test_a_bad_request_is_refused_and_names_the_field(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as error:
        client.generate(ids_request([10**6], 4))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "token_ids" in str(error.value.details())
