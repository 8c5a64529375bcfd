"""A client of the public gRPC API, for programs: `Client` and `AsyncClient`. No torch.

    with Client("127.0.0.1:50051") as client:
        for chunk in client.generate(chat="Name three rivers.", max_new_tokens=60):
            print(chunk.text, end="", flush=True)

docs/clients.md shows the rest.
"""

from outrider.client.answers import Answer, Chunk, Model, Report, Round, Usage, collect
from outrider.client.asynchronous import AsyncClient
from outrider.client.connection import Tls
from outrider.client.failures import ServiceUnreachable
from outrider.client.fields import Message, RequestFields
from outrider.client.synchronous import Client
from outrider.protocol.decoding import FinishReason, TopLogProbs
from outrider.protocol.errors import (
    DeadlineExceeded,
    InternalFailure,
    InvalidField,
    NoCapacity,
    OutriderError,
    Unauthenticated,
    WorkerUnavailable,
)
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import TokenTree

__all__ = [
    "Answer",
    "AsyncClient",
    "Chunk",
    "Client",
    "DeadlineExceeded",
    "FinishReason",
    "InternalFailure",
    "InvalidField",
    "Message",
    "Model",
    "NoCapacity",
    "OutriderError",
    "Report",
    "RequestFields",
    "Round",
    "RoundTree",
    "ServiceUnreachable",
    "Tls",
    "TokenTree",
    "TopLogProbs",
    "Unauthenticated",
    "Usage",
    "WorkerUnavailable",
    "collect",
]
