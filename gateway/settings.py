"""Settings of the gateway: where it listens, what it asks, and how much it takes on."""

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from gateway.discovery import MAX_PORT, WorkerSource, parse_sources
from outrider.api_keys import Access, read_api_keys
from outrider.settings import LOOPBACK_HOSTS, BadSettings, Settings
from outrider.telemetry.logging import check_level


class GatewaySettings(Settings):
    """The gateway: text in, text out, over gRPC and HTTP."""

    program: ClassVar[str] = "gateway"
    env_prefix: ClassVar[str] = "OUTRIDER_GATEWAY_"

    model: Path = Field(
        description="folder with the target's tokenizer.json, config.json and chat template"
    )
    model_name: str = Field("", description="name shown to clients; empty: the draft worker's")
    draft_addresses: str = Field(
        "127.0.0.1:50052",
        description="draft workers: host:port, or dns:host:port for every address behind a name; "
        "several with commas",
    )
    worker_timeout_s: float = Field(
        1.0, gt=0, le=60, description="silence after which a draft worker counts as lost, seconds"
    )
    failover_timeout_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="longest time that a stream waits for another draft worker, seconds; 0: the "
        "loss of its worker ends it",
    )
    grpc_host: str = Field("127.0.0.1", description="address of the gRPC listener")
    grpc_port: int = Field(50051, ge=1, le=MAX_PORT, description="port of the gRPC listener")
    http_host: str = Field("127.0.0.1", description="address of the HTTP listener")
    http_port: int = Field(8080, ge=1, le=MAX_PORT, description="port of the HTTP listener")
    api_keys: Path | None = Field(
        None, description="file of API keys, NAME:SHA256 a line; none: everybody may ask"
    )
    open_to_all: bool = Field(
        False, description="listen beyond this machine without API keys: somebody else must guard"
    )
    reflection: bool = Field(True, description="answer gRPC server reflection")
    playground: bool = Field(True, description="serve the page at / of the HTTP listener")
    max_running_requests: int = Field(
        64, ge=1, le=100_000, description="most requests that are generated at once"
    )
    max_queued_requests: int = Field(
        256, ge=0, le=100_000, description="most requests that wait for a place"
    )
    default_max_new_tokens: int = Field(
        1024, ge=1, le=2**31 - 1, description="tokens to generate where a request names no number"
    )
    max_deadline_s: float = Field(
        600, gt=0, le=86_400, description="longest time one request may take, seconds"
    )
    max_request_bytes: int = Field(
        4 * 2**20, ge=1024, le=64 * 2**20, description="largest request, bytes"
    )
    drain_timeout_s: float = Field(
        20, ge=0, le=3600, description="time that running requests get at the end, seconds"
    )
    log_level: str = Field("info", description="debug, info, warning or error")

    @field_validator("draft_addresses")
    @classmethod
    def _check_addresses(cls, addresses: str) -> str:
        parse_sources(addresses)
        return addresses

    @field_validator("log_level")
    @classmethod
    def _check_log_level(cls, level: str) -> str:
        return check_level(level)

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        if self.api_keys is None and not self.open_to_all:
            for flag, host in (("--grpc-host", self.grpc_host), ("--http-host", self.http_host)):
                if host not in LOOPBACK_HOSTS:
                    raise ValueError(
                        f"{flag} {host} is beyond this machine: name --api-keys, or set "
                        "--open-to-all where something else guards it"
                    )
        return self

    @property
    def draft_sources(self) -> list[WorkerSource]:
        """Where draft workers are, at least one entry."""
        return parse_sources(self.draft_addresses)

    def access(self) -> Access:
        """Who may ask.

        Raises:
            BadSettings: The file of keys cannot be used.
        """
        if self.api_keys is None:
            return Access()
        try:
            return Access(read_api_keys(self.api_keys.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise BadSettings(f"--api-keys {self.api_keys}: {error}") from error
