"""Who may ask: API keys, known by their hash only. Policy: no I/O, no clock.

A key is 32 random bytes; such a secret needs no slow hash. The file has one line a key,
`NAME:SHA-256 of the key, in hex`; `outrider keys NAME` makes both.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.protocol.errors import Unauthenticated

KEY_PREFIX = "or-"
KEY_BYTES = 32

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SCHEME = "bearer "


class BadApiKeys(ValueError):
    """A file of keys that cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key.

    Args:
        name: Of whoever holds it: 1 to 64 letters, digits and `._-`.
        digest: SHA-256 of the key.
    """

    name: str
    digest: bytes


def make_key() -> str:
    """A new key."""
    return KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def digest_of(key: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).digest()


def key_line(name: str, key: str) -> str:
    """The line of a key in a file.

    Raises:
        BadApiKeys: The name is none.
    """
    if not _NAME.fullmatch(name):
        raise BadApiKeys(f"{name!r} is no name: 1 to 64 letters, digits and ._-")
    return f"{name}:{digest_of(key).hex()}"


def read_api_keys(text: str) -> list[ApiKey]:
    """Reads a file of keys; empty lines and those that begin with # are passed over.

    Raises:
        BadApiKeys: A line is not of the form, a name or key is there twice, or there is no key.
    """
    keys: list[ApiKey] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, digest = line.partition(":")
        if not _NAME.fullmatch(name) or not _DIGEST.fullmatch(digest):
            raise BadApiKeys(f"line {number}: must be NAME:SHA256, as `outrider keys` makes it")
        key = ApiKey(name, bytes.fromhex(digest))
        if any(key.name == other.name or key.digest == other.digest for other in keys):
            raise BadApiKeys(f"line {number}: the name or the key is there twice")
        keys.append(key)
    if not keys:
        raise BadApiKeys("there is no key; make one with `outrider keys NAME`")
    return keys


class Access:
    """Lets in whoever has a key; without any keys, everybody.

    Args:
        keys: Known ones.
    """

    def __init__(self, keys: Sequence[ApiKey] = ()) -> None:
        self._keys = list(keys)

    def tenant_of(self, authorization: str) -> str:
        """Who asks.

        Args:
            authorization: Value of the header or metadata of that name; "" where there is none.

        Returns:
            The name of the key; "" where no keys are set.

        Raises:
            Unauthenticated: No key, or one that is not known.
        """
        if not self._keys:
            return ""
        if not authorization.lower().startswith(_SCHEME):
            raise Unauthenticated("an API key is needed: send `Authorization: Bearer KEY`")
        presented = digest_of(authorization[len(_SCHEME) :].strip())
        # All are compared, so that the time says nothing of which one was near.
        found = [key.name for key in self._keys if hmac.compare_digest(key.digest, presented)]
        if not found:
            raise Unauthenticated("this API key is not known")
        return found[0]
