"""TLS towards draft workers: whom the gateway trusts, and the certificate it shows them.

Shell: has the files read. A channel keeps what it was opened with.
"""

import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from outrider.pem_files import load_pair, load_roots

FLAGS = "--draft-tls"

_MISTRUST = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]*)")


@dataclass(frozen=True, slots=True)
class DraftTlsFiles:
    """Where the parts are, in PEM.

    Args:
        ca: Roots of the draft workers' certificates.
        cert: The gateway's certificate, and behind it those up to its root.
        key: Its private key, not encrypted.
        name: What the draft workers' certificates are for, whatever their addresses.
    """

    ca: Path
    cert: Path
    key: Path
    name: str


class DraftTls:
    """Opens channels with TLS.

    Args:
        files: Read now, and again by `reload`.

    Raises:
        BadTlsFiles: They cannot be used.
    """

    def __init__(self, files: DraftTlsFiles) -> None:
        self._files = files
        self._credentials = _load(files)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Those that are read."""
        return (self._files.ca, self._files.cert, self._files.key)

    def reload(self) -> None:
        """Reads the files again, for channels to come.

        Raises:
            BadTlsFiles: They cannot be used; what was in use stays.
        """
        self._credentials = _load(self._files)

    def channel(self, address: str, options: Sequence[tuple[str, object]]) -> grpc.aio.Channel:
        """Opens a channel to a draft worker.

        Args:
            address: host:port.
            options: Of the channel, beside the name that is expected.
        """
        named = [*options, ("grpc.ssl_target_name_override", self._files.name)]
        return grpc.aio.secure_channel(address, self._credentials, options=named)


def connection_problem(details: str, has_tls: bool) -> str:
    """Why a draft worker cannot be reached, in words for the log; "" where there is no more to say.

    Args:
        details: What gRPC says of it.
        has_tls: The channel has TLS.
    """
    if "WRONG_VERSION_NUMBER" in details:
        return (
            "it speaks without TLS; give it --tls-cert, --tls-key and --tls-client-ca, or leave "
            f"out {FLAGS}-ca here"
        )
    if "Hostname Verification Check failed" in details:
        return f"its certificate is not for the name of {FLAGS}-name"
    if found := _MISTRUST.search(details):
        return f"its certificate is not trusted ({found[1]}); see {FLAGS}-ca"
    if "failed to connect" in details and "Socket closed" in details:
        if has_tls:
            return f"it refused the certificate of {FLAGS}-cert; see its --tls-client-ca"
        return f"it closed the connection at once; if it has TLS, set {FLAGS}-ca, -cert and -key"
    return ""


def _load(files: DraftTlsFiles) -> grpc.ChannelCredentials:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    roots = load_roots(context, f"{FLAGS}-ca", files.ca)
    pair = load_pair(context, FLAGS, files.cert, files.key)
    return grpc.ssl_channel_credentials(roots, pair.key, pair.cert)
