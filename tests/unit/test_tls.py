"""Files that make no certificate are named, with what is wrong with them."""

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from outrider.pem_files import BadTlsFiles
from outrider.tls import Tls, TlsFiles
from tests.fakes.certificates import write_pair, write_tls_files

CA = trustme.CA()


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return write_tls_files(CA, tmp_path, clients=CA)


def encrypt(key: Path) -> None:
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def test_files_that_belong_together_are_taken(files: TlsFiles) -> None:
    Tls(files)
    assert len(files.paths) == 3
    assert len(TlsFiles(files.cert, files.key).paths) == 2


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("cert.pem", None, "--tls-cert .*cert.pem: No such file"),
        ("key.pem", None, "--tls-key .*key.pem: No such file"),
        ("clients.pem", None, "--tls-client-ca .*clients.pem: No such file"),
        ("cert.pem", b"", "--tls-cert .*: holds no certificate in PEM"),
        ("cert.pem", b"-----BEGIN CERTIFICATE-----\nnonsense", "--tls-cert .*cert.pem with"),
        ("key.pem", b"\xff\x00", "--tls-key .*: holds no private key in PEM"),
        ("key.pem", b"-----BEGIN PRIVATE KEY-----\n", "--tls-cert .* with --tls-key .*key.pem"),
        ("clients.pem", b"x", "--tls-client-ca .*: holds no certificate in PEM"),
        ("clients.pem", b"-----BEGIN CERTIFICATE-----\n", "--tls-client-ca .*clients.pem: "),
    ],
    ids=range(9),
)
def test_a_file_that_cannot_be_used_is_named(
    files: TlsFiles, tmp_path: Path, name: str, data: bytes | None, words: str
) -> None:
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(BadTlsFiles, match=words):
        Tls(files)


def test_a_key_of_another_certificate_is_named(files: TlsFiles, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _, key = write_pair(CA, other)
    with pytest.raises(BadTlsFiles, match=r"other/key\.pem does not belong to .*cert\.pem"):
        Tls(TlsFiles(files.cert, key))


def test_nobody_is_asked_for_the_password_of_a_key(files: TlsFiles) -> None:
    encrypt(files.key)
    with pytest.raises(BadTlsFiles, match=r"--tls-key .*key\.pem: is encrypted"):
        Tls(files)


def test_a_bad_reload_leaves_what_was_in_use(files: TlsFiles) -> None:
    tls = Tls(files)
    before = tls.http_context()
    files.key.write_bytes(b"")
    with pytest.raises(BadTlsFiles):
        tls.reload()
    assert before.sni_callback is not None
    write_pair(CA, files.cert.parent)
    tls.reload()
