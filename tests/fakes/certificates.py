"""Certificates made on the fly, in files of the form that the listeners read."""

from pathlib import Path

import trustme

from outrider.tls import TlsFiles


def write_pair(ca: trustme.CA, folder: Path, *names: str, stem: str = "") -> tuple[Path, Path]:
    """A certificate of this root and its key; what was there is replaced.

    Args:
        ca: The root.
        folder: Where to.
        names: What the certificate is for; this machine where there are none.
        stem: Begins the names of the files.
    """
    pair = ca.issue_cert(*(names or ("localhost", "127.0.0.1")))
    cert, key = folder / f"{stem}cert.pem", folder / f"{stem}key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
    key.write_bytes(pair.private_key_pem.bytes())
    return cert, key


def write_tls_files(ca: trustme.CA, folder: Path, clients: trustme.CA | None = None) -> TlsFiles:
    """All files of a listener.

    Args:
        ca: Root of its certificate.
        folder: Where to.
        clients: Root of the certificates that clients must have; None: none.
    """
    cert, key = write_pair(ca, folder)
    roots = None
    if clients is not None:
        roots = folder / "clients.pem"
        roots.write_bytes(clients.cert_pem.bytes())
    return TlsFiles(cert, key, roots)
