"""What the settings of a draft and a verify worker have in common, and what is made of it."""

from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry
from pydantic import Field, field_validator, model_validator

from outrider.protocol.zmq_channel import (
    CurveKeys,
    UnsafeEndpoint,
    check_endpoint,
    load_curve_keys,
)
from outrider.settings import BadSettings, Settings, check_loopback
from outrider.telemetry.logging import LogFormat, check_level
from outrider.telemetry.metrics import start_metrics_server


class WorkerSettings(Settings):
    """Base of both; a worker adds `metrics_port`, whose default is its own."""

    metrics_host: str = Field("127.0.0.1", description="host of /metrics; loopback only")
    metrics_port: int = Field(0, description="port of /metrics; 0: none", ge=0, le=65535)
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
        """Answers `GET /metrics` from a daemon thread, where a port is set.

        Raises:
            BadSettings: The port is taken or not allowed.
        """
        if not self.metrics_port:
            return
        try:
            start_metrics_server(registry, self.metrics_host, self.metrics_port)
        except OSError as error:
            raise BadSettings(f"--metrics-port {self.metrics_port}: {error}") from error

    def check_endpoint(self, name: str, endpoint: str) -> None:
        """Refuses an endpoint that is neither local nor encrypted.

        Raises:
            ValueError: It is.
        """
        try:
            check_endpoint(endpoint, self.curve_key is not None)
        except UnsafeEndpoint as error:
            raise ValueError(f"{name} {error}") from error

    @field_validator("metrics_host")
    @classmethod
    def _loopback_only(cls, host: str) -> str:
        return check_loopback("the host", host)

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        return check_level(level)

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if (self.curve_key is None) != (self.curve_peers is None):
            raise ValueError("curve_key and curve_peers go together; set both or neither")
        return self
