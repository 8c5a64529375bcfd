"""What the settings of a draft and a verify worker have in common, and what is made of it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry
from pydantic import Field, field_validator, model_validator

from outrider.metrics_settings import MetricsSettings
from outrider.protocol.zmq_channel import (
    CurveKeys,
    UnsafeEndpoint,
    check_endpoint,
    load_curve_keys,
)
from outrider.settings import LOOPBACK_HOSTS, BadSettings
from outrider.telemetry.logging import LogFormat, check_level
from outrider.telemetry.metrics_listener import start_metrics_server
from outrider.worker_health import WorkerHealth


class WorkerSettings(MetricsSettings):
    """Base of both; a worker adds `metrics_port`, whose default is its own."""

    metrics_host: str = Field(
        "127.0.0.1", description="host of /metrics; beyond loopback with metrics_token_file only"
    )
    metrics_port: int = Field(0, description="port of /metrics; 0: none", ge=0, le=65535)
    health_host: str = Field("127.0.0.1", description="host of the health port")
    health_port: int = Field(
        0,
        description="port of grpc.health.v1.Health, without TLS, for probes; 0: none",
        ge=0,
        le=65535,
    )
    drain_timeout_s: float = Field(
        20.0, description="time for running streams after SIGTERM, s", ge=0.0
    )
    curve_key: Path | None = Field(None, description="file with this worker's CURVE secret key")
    curve_peers: Path | None = Field(
        None, description="file or folder with the CURVE public keys of the other side's workers"
    )
    log_level: str = Field("info", description="debug, info, warning or error")
    log_format: LogFormat = Field(
        "text", description="text, or json: one object a line, for what collects logs"
    )

    def curve_keys(self) -> CurveKeys | None:
        """The keys of this end; None where none are set.

        Raises:
            BadSettings: A file cannot be used.
        """
        if self.curve_key is None or self.curve_peers is None:
            return None
        try:
            return load_curve_keys(self.curve_key, self.curve_peers)
        except UnsafeEndpoint as error:
            raise BadSettings(str(error)) from error

    def serve_metrics(self, registry: CollectorRegistry) -> None:
        """Answers `GET /metrics` from daemon threads, where a port is set.

        Raises:
            BadSettings: The port is taken or not allowed, or the token cannot be used.
        """
        token = self.metrics_token()
        if not self.metrics_port:
            return
        admits = token.admits if token is not None else None
        try:
            start_metrics_server(registry, self.metrics_host, self.metrics_port, admits)
        except OSError as error:
            raise BadSettings(f"--metrics-port {self.metrics_port}: {error}") from error

    @contextmanager
    def serve_health(self) -> Iterator[WorkerHealth]:
        """The worker's health, shown to probes while the context is open, where a port is set.

        Raises:
            BadSettings: The port is taken or not allowed.
        """
        with closing(WorkerHealth()) as health:
            if self.health_port:
                try:
                    health.listen(self.health_host, self.health_port)
                except OSError as error:
                    raise BadSettings(f"--health-port {self.health_port}: {error}") from error
            yield health

    def check_endpoint(self, name: str, endpoint: str) -> None:
        """Refuses an endpoint that is neither local nor encrypted.

        Raises:
            ValueError: It is.
        """
        try:
            check_endpoint(endpoint, self.curve_key is not None)
        except UnsafeEndpoint as error:
            raise ValueError(f"{name} {error}") from error

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        return check_level(level)

    @model_validator(mode="after")
    def _metrics_are_guarded(self) -> Self:
        beyond = self.metrics_port and self.metrics_host not in LOOPBACK_HOSTS
        if beyond and self.metrics_token_file is None:
            raise ValueError(
                f"--metrics-host {self.metrics_host} is beyond this machine: name a file with a "
                "token for its readers, --metrics-token-file, or leave it at 127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if (self.curve_key is None) != (self.curve_peers is None):
            raise ValueError("curve_key and curve_peers go together; set both or neither")
        return self
