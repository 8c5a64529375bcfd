"""The file of API keys: one line a key, its hash, and in words what it may be used for.

    alice:<SHA-256 of the key, in hex> may=generate,models tokens_per_day=100000

Errors name the line. They never quote it: somebody may have written the key itself there.
"""

import re
from collections.abc import Sequence
from dataclasses import fields

from outrider.api_keys import ALL_PERMISSIONS, Allowance, ApiKey, Permission, digest_of
from outrider.settings import did_you_mean

MAX_AMOUNT = 10**15

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAY = "may"
_AMOUNTS = tuple(field.name for field in fields(Allowance))
_UNBOUNDED = ("requests_per_minute", "tokens_per_minute")  # 0 is a word for "no bound" here


class BadApiKeys(ValueError):
    """A file of keys that cannot be used; the message names the line."""


def key_line(name: str, key: str, words: Sequence[str] = ()) -> str:
    """The line of a key in a file.

    Args:
        name: Of whoever will hold the key.
        key: Only its hash is written.
        words: What it may be used for and how much, as in the file.

    Raises:
        BadApiKeys: The name is none, or a word is not one of the file's.
    """
    if not _NAME.fullmatch(name):
        raise BadApiKeys(f"{name!r} is no name: 1 to 64 letters, digits and ._-")
    line = " ".join([f"{name}:{digest_of(key).hex()}", *words])
    _read_line(line)
    return line


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
        try:
            key = _read_line(line)
            if any(key.name == other.name or key.digest == other.digest for other in keys):
                raise BadApiKeys("the name or the key is there twice")
        except BadApiKeys as error:
            raise BadApiKeys(f"line {number}: {error}") from None
        keys.append(key)
    if not keys:
        raise BadApiKeys("there is no key; make one with `outrider keys NAME`")
    return keys


def _read_line(line: str) -> ApiKey:
    first, *words = line.split()
    name, _, digest = first.partition(":")
    if not _NAME.fullmatch(name) or not _DIGEST.fullmatch(digest):
        raise BadApiKeys("must begin with NAME:SHA256, as `outrider keys` makes it")
    permissions = ALL_PERMISSIONS
    amounts: dict[str, int] = {}
    seen: set[str] = set()
    for word in words:
        kind, equals, value = word.partition("=")
        if not equals:
            raise BadApiKeys("behind NAME:SHA256 each word must be of the form word=value")
        if kind in seen:
            raise BadApiKeys(f"{kind} is there twice")
        seen.add(kind)
        if kind == _MAY:
            permissions = _read_permissions(value)
        elif kind in _AMOUNTS:
            amounts[kind] = _read_amount(kind, value)
        else:
            raise BadApiKeys(f"unknown word {kind}{did_you_mean(kind, [_MAY, *_AMOUNTS])}")
    return ApiKey(name, bytes.fromhex(digest), permissions, Allowance(**amounts))


def _read_permissions(value: str) -> frozenset[Permission]:
    try:
        return frozenset(Permission(part) for part in value.split(","))
    except ValueError:
        known = ", ".join(one.value for one in Permission)
        raise BadApiKeys(f"{_MAY}: must be some of {known}, with commas between them") from None


def _read_amount(kind: str, value: str) -> int:
    least = 0 if kind in _UNBOUNDED else 1
    if not re.fullmatch(r"[0-9]{1,16}", value) or not least <= int(value) <= MAX_AMOUNT:
        raise BadApiKeys(f"{kind}: must be a whole number from {least} to {MAX_AMOUNT}")
    return int(value)
