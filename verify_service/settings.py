"""Settings of a verify worker."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from outrider.worker_settings import WorkerSettings


class VerifySettings(WorkerSettings):
    """Runs the target model over candidate trees and keeps the KV cache."""

    program: ClassVar[str] = "verify_service"
    env_prefix: ClassVar[str] = "OUTRIDER_VERIFY_"

    model: str = Field(
        "embedded", description="target: a folder, a hub name, or 'embedded'", min_length=1
    )
    model_name: str = Field("", description="name shown to clients; empty: from the model")
    endpoint: str = Field(
        "tcp://127.0.0.1:50053", description="where draft workers connect: ipc://PATH or tcp://H:P"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto",
        description="weights and cache; auto: the checkpoint's, float32 on a CPU without bf16",
    )
    device_map: str = Field("auto", description="cpu, cuda, cuda:N, or auto (spread over all GPUs)")
    tensor_parallel: int = Field(
        0,
        description="processes on this machine that hold a part of each layer; 0: one, or as many "
        "as torchrun has started",
        ge=0,
        le=1024,
    )
    quantization: Literal[
        "none", "bitsandbytes-8bit", "bitsandbytes-4bit", "torchao-int8", "torchao-float8"
    ] = Field(
        "none",
        description="how weights are kept: none (as the checkpoint has them, quantised or not), "
        "bitsandbytes-8bit, bitsandbytes-4bit, torchao-int8 or torchao-float8",
    )
    threads: int = Field(0, description="torch threads on a CPU; 0: one per core", ge=0, le=1024)
    kv_cache_mib: int = Field(
        1024, description="memory of the KV pool over all devices, MiB; unless a share is set", ge=1
    )
    kv_cache_share: float = Field(
        0.0,
        description="share of each device's memory beside the weights that the KV pool and its "
        "features may fill; wins over kv_cache_mib; 0: not set",
        ge=0.0,
        le=0.95,
    )
    block_size: int = Field(16, description="rows of a KV block", ge=1, le=1024)
    prefix_cache: bool = Field(
        True, description="keep rows of ended sessions for others that begin with the same tokens"
    )
    context_limit: int = Field(
        0, description="most tokens of a session; 0: what the model was made for", ge=0
    )
    max_nodes: int = Field(64, description="most nodes of a tree, root included", ge=1, le=1024)
    max_depth: int = Field(16, description="most drafted tokens on one path", ge=1, le=64)
    token_budget: int = Field(512, description="most rows of one forward pass", ge=1)
    max_step_ms: int = Field(
        1000,
        description="prefill chunks are cut so that a forward pass takes about this long, ms",
        ge=1,
    )
    lease_ms: int = Field(
        5000, description="silence after which a peer's sessions are freed, ms", ge=100
    )
    metrics_port: int = Field(9102, description="port of /metrics; 0: none", ge=0, le=65535)

    @model_validator(mode="after")
    def _endpoint_is_safe(self) -> Self:
        self.check_endpoint("endpoint", self.endpoint)
        return self
