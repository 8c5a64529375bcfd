"""X.509 certificates of a cluster: a root of its own and what it signs. Bytes in, bytes out.

Knows no files. Times are arguments.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3650
LEAF_DAYS = 365
CLOCK_SKEW = timedelta(hours=1)  # a host whose clock is behind must not refuse a new certificate
CA_NAME = "Outrider cluster"


class BadKeyFile(ValueError):
    """What is in a file is not what it should be; the message says why, not where."""


class Leaf(NamedTuple):
    """What can be read off a certificate: its names, and when it ends."""

    names: tuple[str, ...]
    ends: datetime


def make_key() -> bytes:
    """A new private key on P-256, PEM, not encrypted."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def make_ca(key_pem: bytes, now: datetime) -> bytes:
    """The root certificate of a key, PEM; the same key gives a root that trusts the same leaves.

    Raises:
        BadKeyFile: There is no such key in it.
    """
    key = _key(key_pem)
    name = _named(CA_NAME)
    builder = _builder(name, name, key.public_key(), now, CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def make_leaf(
    name: str, is_server: bool, key_pem: bytes, ca_pem: bytes, ca_key_pem: bytes, now: datetime
) -> bytes:
    """A certificate for a year, PEM.

    Args:
        name: Host name of whoever holds it.
        is_server: True: for the side that listens; False: for the side that connects.
        key_pem: Private key of whoever holds it.
        ca_pem: Root.
        ca_key_pem: Key of the root.
        now: Time of day.

    Raises:
        BadKeyFile: A key or the root cannot be used, or the root's key is another one's.
    """
    key, ca_key, ca = _key(key_pem), _key(ca_key_pem), _certificate(ca_pem)
    if ca.public_key() != ca_key.public_key():
        raise BadKeyFile("the root certificate and its key do not belong together")
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = _builder(_named(name), ca.subject, key.public_key(), now, LEAF_DAYS)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    return builder.sign(ca_key, SHA256()).public_bytes(Encoding.PEM)


def read_leaf(pem: bytes) -> Leaf:
    """What a certificate says of itself.

    Raises:
        BadKeyFile: It is none.
    """
    certificate = _certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Leaf((), certificate.not_valid_after_utc)
    return Leaf(tuple(names.get_values_for_type(x509.DNSName)), certificate.not_valid_after_utc)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (TypeError, ValueError) as error:
        raise BadKeyFile(f"no private key in PEM without a password: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadKeyFile("not a key on an elliptic curve")
    return key


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise BadKeyFile(f"no certificate in PEM: {error}") from error
