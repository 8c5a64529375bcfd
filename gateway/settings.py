"""Settings of the gateway: where it listens and whom it asks; the rest is in its bases."""

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from gateway.discovery import host_of, parse_sources
from gateway.draft_tls_settings import DraftTlsSettings
from gateway.guard_settings import GuardSettings
from gateway.load_settings import LoadSettings
from outrider.discovery import MAX_PORT, Source
from outrider.metrics_settings import MetricsSettings
from outrider.settings import LOOPBACK_HOSTS
from outrider.telemetry.logging import LogFormat, check_level
from outrider.telemetry.metrics_listener import Admits


class GatewaySettings(LoadSettings, DraftTlsSettings, GuardSettings, MetricsSettings):
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
    probe_host: str = Field("127.0.0.1", description="address of the probe listener")
    probe_port: int = Field(
        0,
        ge=0,
        le=MAX_PORT,
        description="port of /health and /metrics without TLS; /metrics beyond this machine with "
        "metrics_token_file only; 0: none",
    )
    reflection: bool = Field(True, description="answer gRPC server reflection")
    vllm_engine: bool = Field(
        False,
        description="answer vllm.grpc.engine.VllmEngine on the gRPC port too, for the routers smg "
        "and llm-d; needs outrider[vllm-engine]",
    )
    playground: bool = Field(True, description="serve the page at / of the HTTP listener")
    log_level: str = Field("info", description="debug, info, warning or error")
    log_format: LogFormat = Field(
        "text", description="text, or json: one object a line, for what collects logs"
    )

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
    def _check_guarded(self) -> Self:
        if not self.is_guarded and self._beyond():
            raise ValueError(
                f"{self._beyond()} is beyond this machine: name --api-keys or --tls-client-ca, or "
                "set --open-to-all where something else guards it"
            )
        return self

    @property
    def draft_sources(self) -> list[Source]:
        """Where draft workers are, at least one entry."""
        return parse_sources(self.draft_addresses)

    def probe_readers(self) -> Admits | None:
        """Who may read metrics from the probe listener; None: everybody.

        Raises:
            BadSettings: The file of the token holds none.
        """
        token = self.metrics_token()
        if token is not None:
            return token.admits
        return (lambda _: False) if self._probes_from_elsewhere else None

    @property
    def warnings(self) -> list[str]:
        """What is allowed and yet not wise, in words."""
        found = []
        beyond = self._beyond()
        if beyond and self.tls_cert is None:
            what = "keys, prompts and answers" if self.has_keys else "prompts and answers"
            found.append(
                f"{beyond} is beyond this machine and there is no TLS: whoever is on the way reads "
                f"{what}; set --tls-cert and --tls-key, or put a proxy that has TLS in front"
            )
        far = [source for source in self.draft_sources if host_of(source) not in LOOPBACK_HOSTS]
        if far and self.draft_tls_ca is None:
            found.append(
                f"draft workers at {far[0]} are beyond this machine and there is no TLS to them: "
                "whoever is on the way reads prompts and answers; set --draft-tls-ca, "
                "--draft-tls-cert and --draft-tls-key"
            )
        if self._probes_from_elsewhere and self.metrics_token_file is None:
            found.append(
                f"--probe-host {self.probe_host} is beyond this machine: it answers /health there, "
                "and /metrics to nobody; name a file with a token for readers, --metrics-token-file"
            )
        return found

    @property
    def _probes_from_elsewhere(self) -> bool:
        return bool(self.probe_port) and self.probe_host not in LOOPBACK_HOSTS

    def _beyond(self) -> str:
        """A listener that others than this machine can reach, as it was asked for; "": none."""
        for flag, host in (("--grpc-host", self.grpc_host), ("--http-host", self.http_host)):
            if host not in LOOPBACK_HOSTS:
                return f"{flag} {host}"
        return ""
