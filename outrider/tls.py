"""Certificates of a process's listeners, which may be replaced while connections go on.

Shell: has the files read. New connections get the newest certificate that could be used, old ones
keep theirs. TLS 1.2 is the least: gRPC's own floor, and the one set here for HTTP.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import grpc

from outrider.pem_files import load_pair, load_roots


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the parts are, in PEM.

    Args:
        cert: The certificate, and behind it those up to its root.
        key: Its private key, not encrypted.
        client_ca: Roots of the clients' certificates, which are then demanded; None: not asked for.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All that there are."""
        return tuple(path for path in (self.cert, self.key, self.client_ca) if path is not None)


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    configuration: grpc.ServerCertificateConfiguration


class Tls:
    """What listeners over gRPC and over HTTP use.

    Args:
        files: Read now, and again by `reload`.

    Raises:
        BadTlsFiles: They cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._loaded = _load(files)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Those that are read."""
        return self._files.paths

    def reload(self) -> None:
        """Reads the files again, for connections to come.

        Raises:
            BadTlsFiles: They cannot be used; what was in use stays.
        """
        self._loaded = _load(self._files)

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Of a gRPC server; asks at each handshake for what is newest."""
        served = self._loaded.configuration

        def newest() -> grpc.ServerCertificateConfiguration | None:
            nonlocal served
            if served is self._loaded.configuration:
                return None
            served = self._loaded.configuration
            return served

        demands = self._files.client_ca is not None
        return grpc.dynamic_ssl_server_credentials(
            served,
            newest,  # type: ignore[arg-type]  # None means that nothing is new
            demands,
        )

    def http_context(self) -> ssl.SSLContext:
        """Of an HTTP server; hands each connection to the newest context."""
        front = _load(self._files).context

        def choose(
            connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
        ) -> None:
            connection.context = self._loaded.context

        front.sni_callback = choose  # called whether the client names a server or not
        return front


def _load(files: TlsFiles) -> _Loaded:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    pair = load_pair(context, "--tls", files.cert, files.key)
    roots = None
    if files.client_ca is not None:
        roots = load_roots(context, "--tls-client-ca", files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        # A session that is taken up again is not verified again, whatever the roots are by then.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    configuration = grpc.ssl_server_certificate_configuration([(pair.key, pair.cert)], roots)
    return _Loaded(context, configuration)
