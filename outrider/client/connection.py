"""How to reach a service: certificates, key and channel options. Shared by both clients."""

from dataclasses import dataclass
from pathlib import Path

import grpc

DEFAULT_ADDRESS = "127.0.0.1:50051"
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 2**20),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates, as PEM files.

    Args:
        ca: Whom to trust; None: whom gRPC trusts by itself.
        cert: Of this client, where the service asks for one.
        key: Its private key.

    Raises:
        ValueError: Only one of cert and key is given.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key go together")

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files.

        Raises:
            OSError: One cannot be read.
        """
        ca, key, cert = (
            path.read_bytes() if path is not None else None
            for path in (self.ca, self.key, self.cert)
        )
        return grpc.ssl_channel_credentials(ca, key, cert)


def key_metadata(api_key: str) -> tuple[tuple[str, str], ...]:
    """What goes with each call, so that the service knows who asks; "": nothing."""
    return (("authorization", f"Bearer {api_key}"),) if api_key else ()
