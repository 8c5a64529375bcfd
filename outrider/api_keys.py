"""Who may ask, and for what: API keys, known by their hash only. Policy: no I/O, no clock.

A key is 32 random bytes; such a secret needs no slow hash. `key_file.py` reads and writes them.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from outrider.protocol.errors import Forbidden, Unauthenticated

KEY_PREFIX = "or-"
KEY_BYTES = 32

_SCHEME = "bearer "


class Permission(Enum):
    """What a key may be allowed; the values are the words of the file."""

    GENERATE = "generate"
    MODELS = "models"
    METRICS = "metrics"


ALL_PERMISSIONS = frozenset(Permission)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a key may use; None: what the gateway gives every key, 0 (the first two): no bound.

    Args:
        requests_per_minute: Requests that generate.
        tokens_per_minute: Tokens of prompts and answers.
        tokens_per_day: The same, from midnight to midnight UTC; None: no bound.
        tokens_total: The same, ever; None: no bound.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    tokens_total: int | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key.

    Args:
        name: Of whoever holds it: 1 to 64 letters, digits and `._-`.
        digest: SHA-256 of the key.
        permissions: What it may be used for.
        allowance: How much.
    """

    name: str
    digest: bytes
    permissions: frozenset[Permission] = ALL_PERMISSIONS
    allowance: Allowance = Allowance()


NOBODY = ApiKey("", b"")  # whoever asks where no keys are set


def make_key() -> str:
    """A new key."""
    return KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def digest_of(key: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).digest()


def bearer_secret(authorization: str) -> str:
    """What a header `Authorization: Bearer SECRET` bears; "" where it is none."""
    if not authorization.lower().startswith(_SCHEME):
        return ""
    return authorization[len(_SCHEME) :].strip()


class Access:
    """Lets in whoever has a key; without any keys, everybody.

    Args:
        keys: Known ones.
    """

    def __init__(self, keys: Sequence[ApiKey] = ()) -> None:
        self._keys = list(keys)

    def replace(self, keys: Sequence[ApiKey]) -> None:
        """From now on these are the known ones; at least one."""
        self._keys = list(keys)

    def admit(self, authorization: str, permission: Permission) -> ApiKey:
        """Who asks.

        Args:
            authorization: Value of the header or metadata of that name; "" where there is none.
            permission: What for.

        Returns:
            The key; NOBODY where no keys are set.

        Raises:
            Unauthenticated: No key, or one that is not known.
            Forbidden: The key is not for this.
        """
        key = self._key_of(authorization) if self._keys else NOBODY
        if permission not in key.permissions:
            raise Forbidden(f"the key of {key.name} may not be used for {permission.value}")
        return key

    def _key_of(self, authorization: str) -> ApiKey:
        secret = bearer_secret(authorization)
        if not secret:
            raise Unauthenticated("an API key is needed: send `Authorization: Bearer KEY`")
        presented = digest_of(secret)
        # All are compared, so that the time says nothing of which one was near.
        found = [key for key in self._keys if hmac.compare_digest(key.digest, presented)]
        if not found:
            raise Unauthenticated("this API key is not known")
        return found[0]
