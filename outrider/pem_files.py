"""Certificates, keys and roots in PEM files: read, and refused in words that name setting and file.

Shell: reads the files. Knows neither servers nor clients.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class BadTlsFiles(ValueError):
    """Files that make no certificate; the message names the setting and the file."""


class PemPair(NamedTuple):
    """A certificate chain and its private key."""

    cert: bytes
    key: bytes


def load_pair(context: ssl.SSLContext, prefix: str, cert: Path, key: Path) -> PemPair:
    """Reads a certificate and its key, and lets a context use them.

    Args:
        context: Finds out whether they belong together.
        prefix: Of the settings' names, such as "--tls".
        cert: The certificate, and behind it those up to its root.
        key: Its private key, not encrypted.

    Raises:
        BadTlsFiles: They cannot be used.
    """
    cert_name, key_name = f"{prefix}-cert {cert}", f"{prefix}-key {key}"
    pair = PemPair(
        _read(cert_name, cert, b"CERTIFICATE-----"), _read(key_name, key, b"PRIVATE KEY-----")
    )
    try:
        context.load_cert_chain(cert, key, password=_refuse(key_name))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadTlsFiles(f"{key_name} does not belong to {cert_name}") from None
        raise BadTlsFiles(f"{cert_name} with {key_name}: {error.reason}") from None
    return pair


def load_roots(context: ssl.SSLContext, flag: str, roots: Path) -> bytes:
    """Reads whom to trust, and lets a context trust them.

    Args:
        context: Finds out whether they are certificates.
        flag: Name of the setting.
        roots: Certificates.

    Raises:
        BadTlsFiles: They cannot be used.
    """
    name = f"{flag} {roots}"
    data = _read(name, roots, b"CERTIFICATE-----")
    try:
        context.load_verify_locations(roots)
    except ssl.SSLError as error:
        raise BadTlsFiles(f"{name}: {error.reason}") from None
    return data


def _read(name: str, path: Path, mark: bytes) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadTlsFiles(f"{name}: {error.strerror}") from None
    if mark not in data:
        what = mark.decode().rstrip("-").lower()
        raise BadTlsFiles(f"{name}: holds no {what} in PEM")
    return data


def _refuse(key_name: str) -> Callable[[], str]:
    def password() -> str:
        raise BadTlsFiles(f"{key_name}: is encrypted; decrypt it, nobody is asked here")

    return password
