"""Settings of a draft worker."""

from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from draft_service.tree_shape import StaticShape
from outrider.settings import check_loopback
from outrider.worker_settings import WorkerSettings

HEAD_METHODS = ("hybrid", "eagle3", "eagle1")
METHODS = ("model", *HEAD_METHODS, "ngram", "none")


class DraftSettings(WorkerSettings):
    """Guesses candidate token trees and has them verified."""

    program: ClassVar[str] = "draft_service"
    env_prefix: ClassVar[str] = "OUTRIDER_DRAFT_"

    verify_endpoints: str = Field(
        "tcp://127.0.0.1:50053",
        description="verify workers, comma-separated: ipc://PATH or tcp://HOST:PORT",
    )
    grpc_host: str = Field("127.0.0.1", description="host of the gRPC port; loopback only")
    grpc_port: int = Field(50052, description="port for the gateway", ge=1, le=65535)
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
    def endpoints(self) -> list[str]:
        """Verify workers, at least one."""
        return [part.strip() for part in self.verify_endpoints.split(",") if part.strip()]

    @field_validator("grpc_host")
    @classmethod
    def _grpc_is_loopback_only(cls, host: str) -> str:
        return check_loopback("the host", host)

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
    def _endpoints_are_safe(self) -> Self:
        if not self.endpoints:
            raise ValueError("verify_endpoints names no verify worker")
        for endpoint in self.endpoints:
            self.check_endpoint("verify_endpoints", endpoint)
        return self
