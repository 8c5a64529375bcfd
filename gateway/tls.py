"""Certificates of the listeners, which may be replaced while connections go on.

Shell: reads the files. New connections get the newest certificate that could be used, old ones
keep theirs. TLS 1.2 is the least: gRPC's own floor, and the one set here for HTTP.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import grpc


class BadTlsFiles(ValueError):
    """Files that make no certificate; the message names the setting and the file."""


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
    """What both listeners use.

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
        """The files."""
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
    cert = _read("--tls-cert", files.cert, b"CERTIFICATE-----")
    key = _read("--tls-key", files.key, b"PRIVATE KEY-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.cert, files.key, password=_refuse(files.key))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"--tls-key {files.key} does not belong to --tls-cert {files.cert}"
            raise BadTlsFiles(text) from None
        raise BadTlsFiles(
            f"--tls-cert {files.cert} with --tls-key {files.key}: {error.reason}"
        ) from None
    roots = None
    if files.client_ca is not None:
        roots = _read("--tls-client-ca", files.client_ca, b"CERTIFICATE-----")
        try:
            context.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            raise BadTlsFiles(f"--tls-client-ca {files.client_ca}: {error.reason}") from None
        context.verify_mode = ssl.CERT_REQUIRED
        # A session that is taken up again is not verified again, whatever the roots are by then.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    configuration = grpc.ssl_server_certificate_configuration([(key, cert)], roots)
    return _Loaded(context, configuration)


def _read(flag: str, path: Path, mark: bytes) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadTlsFiles(f"{flag} {path}: {error.strerror}") from None
    if mark not in data:
        what = mark.decode().rstrip("-").lower()
        raise BadTlsFiles(f"{flag} {path}: holds no {what} in PEM")
    return data


def _refuse(path: Path) -> Callable[[], str]:
    def password() -> str:
        raise BadTlsFiles(f"--tls-key {path}: is encrypted; decrypt it, nobody is asked here")

    return password
