"""Settings of a draft worker."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from draft_service.tree_shape import StaticShape
from outrider.discovery import DNS_PREFIX, Source, parse_name
from outrider.settings import LOOPBACK_HOSTS
from outrider.tls import TlsFiles
from outrider.worker_settings import WorkerSettings

VERIFY_SCHEME = "tcp://"
HEAD_METHODS = ("hybrid", "eagle3", "eagle1")
METHODS = ("model", *HEAD_METHODS, "ngram", "none")


class DraftSettings(WorkerSettings):
    """Guesses candidate token trees and has them verified."""

    program: ClassVar[str] = "draft_service"
    env_prefix: ClassVar[str] = "OUTRIDER_DRAFT_"

    verify_endpoints: str = Field(
        "tcp://127.0.0.1:50053",
        description="verify workers, comma-separated: ipc://PATH, tcp://HOST:PORT, or "
        "dns:HOST:PORT for every address behind a name",
    )
    grpc_host: str = Field(
        "127.0.0.1", description="host of the gRPC port; beyond loopback with TLS only"
    )
    grpc_port: int = Field(50052, description="port for the gateway", ge=1, le=65535)
    tls_cert: Path | None = Field(
        None, description="certificate chain of the gRPC port in PEM; none: no TLS"
    )
    tls_key: Path | None = Field(None, description="its private key in PEM, not encrypted")
    tls_client_ca: Path | None = Field(
        None, description="roots in PEM; gateways must have a certificate of theirs"
    )
    metrics_port: int = Field(9101, description="port of /metrics; 0: none", ge=0, le=65535)
    head: str = Field("", description="folder of a draft head; empty: none is loaded")
    draft_model: str = Field(
        "",
        description="small causal language model with the target's tokenizer: a folder, a hub name "
        "or 'embedded'; empty: none is loaded",
    )
    target: str = Field(
        "embedded",
        description="folder of the target that head or draft model are for, or 'embedded'",
    )
    head_dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="the head's weights; auto: as stored, float32 on a CPU without bf16"
    )
    draft_model_dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="the draft model's weights and cache; auto: as for the head"
    )
    device: str = Field(
        "auto", description="where head and draft model run: cpu, cuda, cuda:N or auto"
    )
    threads: int = Field(0, description="torch threads on a CPU; 0: one per core", ge=0, le=1024)
    draft_cache_mib: int = Field(
        256,
        description="memory of the head's own KV rows, and of the draft model's, MiB each",
        ge=1,
    )
    coupled_sampling: bool = Field(
        True, description="at temperatures above 0, guess with the noise that decides"
    )
    canary: bool = Field(
        True,
        description="measure the head on four short prompts before serving; refuse a useless one",
    )
    static_tree: str = Field(
        "",
        description="fixed tree of the methods that use head or draft model alone, as paths of "
        "places among siblings, such as '0 1 0.0 0.1 0.0.0'; empty: trees grow by their scores",
    )
    default_method: str = Field(
        "",
        description=f"draft method of requests that name none: {', '.join(METHODS)}; empty: "
        "model with a draft model, hybrid with a head, else ngram",
    )
    max_nodes: int = Field(24, description="most nodes of a tree, root included", ge=1, le=1024)
    max_depth: int = Field(10, description="most drafted tokens on one path", ge=1, le=64)
    parallel_degree: int = Field(16, description="most children per node", ge=1, le=64)
    full_trees: bool = Field(
        False,
        description="draft as many nodes as allowed, whatever they cost: to compare draft methods",
    )
    verify_timeout_s: float = Field(
        1.5,
        description="silence after which a verify worker counts as lost, beyond the time that it "
        "said a step may take, s",
        ge=0.5,
    )
    failover_timeout_s: float = Field(
        30.0, description="how long a stream waits for another verify worker, s", ge=0.0
    )

    @property
    def verify_sources(self) -> list[Source]:
        """Where verify workers are, at least one entry."""
        return _read_sources(self.verify_endpoints)

    def tls_files(self) -> TlsFiles | None:
        """What TLS on the gRPC port is made of; None: no TLS."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return TlsFiles(self.tls_cert, self.tls_key, self.tls_client_ca)

    @field_validator("verify_endpoints")
    @classmethod
    def _names_verify_workers(cls, endpoints: str) -> str:
        _read_sources(endpoints)
        return endpoints

    @field_validator("default_method")
    @classmethod
    def _known_method(cls, method: str) -> str:
        if method and method not in METHODS:
            raise ValueError(f"must be one of {', '.join(METHODS)}")
        return method

    @field_validator("static_tree")
    @classmethod
    def _paths_are_a_tree(cls, paths: str) -> str:
        StaticShape.parsed(paths)
        return paths

    @model_validator(mode="after")
    def _methods_have_their_networks(self) -> Self:
        if self.default_method in HEAD_METHODS and not self.head:
            raise ValueError(f"default_method {self.default_method} needs a head; set --head")
        if self.default_method == "model" and not self.draft_model:
            raise ValueError("default_method model needs a draft model; set --draft-model")
        if self.static_tree and not self.head and not self.draft_model:
            raise ValueError("static_tree needs a head or a draft model; set one")
        return self

    @model_validator(mode="after")
    def _gateways_are_known(self) -> Self:
        files = (self.tls_cert, self.tls_key, self.tls_client_ca)
        if any(files) and not all(files):
            raise ValueError(
                "--tls-cert, --tls-key and --tls-client-ca go together: gateway and draft worker "
                "ask each other for a certificate; set all three or none"
            )
        if self.grpc_host not in LOOPBACK_HOSTS and not any(files):
            raise ValueError(
                f"--grpc-host {self.grpc_host} is beyond this machine: set --tls-cert, --tls-key "
                "and --tls-client-ca (`outrider keys --cluster FOLDER` makes them), or leave it at "
                "127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _endpoints_are_safe(self) -> Self:
        for source in self.verify_sources:
            # What is behind a name is as far away as the name says.
            endpoint = source if isinstance(source, str) else source.at(source.host.strip("[]"))
            self.check_endpoint("verify_endpoints", endpoint)
        return self


def _read_sources(text: str) -> list[Source]:
    entries = [part.strip() for part in text.split(",") if part.strip()]
    if not entries:
        raise ValueError("names no verify worker")
    return [
        parse_name(entry, VERIFY_SCHEME) if entry.startswith(DNS_PREFIX) else entry
        for entry in entries
    ]
