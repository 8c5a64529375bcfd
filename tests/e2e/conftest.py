"""What the end-to-end tests share: tiny model, receiver of spans, and one running service.

Tests that break a service start their own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.embedded_model import resolve_model
from outrider.evaluation.service import Service, ServiceOptions
from outrider.settings import BadSettings
from tests.e2e.otlp_receiver import OtlpReceiver
from tests.e2e.streams import Client
from tests.e2e.tiny_model import TinyModel, build_tiny_model

# Small: the pool is filled at start, and blocks are counted in the tests.
TINY_ENVIRONMENT = {"OUTRIDER_VERIFY_KV_CACHE_MIB": "8"}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """A random model with its tokenizer."""
    return build_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def receiver() -> Iterator[OtlpReceiver]:
    """Takes the spans of the shared service."""
    receiver = OtlpReceiver()
    receiver.start()
    yield receiver
    receiver.stop()


@pytest.fixture(scope="session")
def tiny_options(tiny_model: TinyModel) -> ServiceOptions:
    """How the tiny model is served."""
    return ServiceOptions(str(tiny_model.folder), "float32", 1, TINY_ENVIRONMENT)


@pytest.fixture(scope="session")
def service(tiny_model: TinyModel, receiver: OtlpReceiver) -> Iterator[Service]:
    """The three processes on the tiny model, for all tests that leave them whole."""
    environment = TINY_ENVIRONMENT | receiver.environment()
    options = ServiceOptions(str(tiny_model.folder), "float32", 1, environment)
    with Service(options) as service:
        yield service


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[Client]:
    """Calls the shared service."""
    client = Client(service.address)
    yield client
    client.close()


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The embedded model's folder; skips where it has not been pulled."""
    try:
        folder = resolve_model("")
    except BadSettings as error:
        pytest.skip(str(error))
    return Path(folder)
