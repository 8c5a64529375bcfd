"""The folder of a cluster's keys: makes what is missing, and never touches what is there.

Shell: owns files and randomness. What the files are is `plan.py`'s.
"""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import zmq
from zmq.auth import load_certificate

from outrider.api_keys import make_key as make_api_key
from outrider.cluster_keys import plan
from outrider.cluster_keys.certificates import (
    BadKeyFile,
    make_ca,
    make_key,
    make_leaf,
    read_leaf,
)
from outrider.key_file import key_line
from outrider.settings import BadSettings

SECRET_MODE = 0o600
PUBLIC_MODE = 0o644
FOLDER_MODE = 0o700
TOKEN_BYTES = 32
FIRST_KEY_NAME = "first"

T = TypeVar("T")


@dataclass(slots=True)
class Made:
    """What one run did.

    Args:
        paths: Files that were made.
        api_key: The first API key, which is kept nowhere; "": the file of keys was there.
        ends: When each certificate ends, by path.
    """

    paths: list[str] = field(default_factory=list)
    api_key: str = ""
    ends: dict[str, datetime] = field(default_factory=dict)


class KeyFolder:
    """One folder.

    Args:
        root: Made where it is missing.
        now: Time of day, with its zone.
    """

    def __init__(self, root: Path, now: datetime) -> None:
        self._root, self._now = root, now
        self._made = Made()

    def fill(self, draft_name: str) -> Made:
        """Makes what is missing.

        Args:
            draft_name: Host name in the draft workers' certificate.

        Raises:
            BadSettings: A file that is there cannot be used, or one cannot be made.
        """
        try:
            for folder in (self._root, self._root / "curve", self._root / "tls"):
                folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            for end in plan.CURVE_ENDS:
                self._fill_curve(f"curve/{end}.key_secret", f"curve/{end}.key")
            self._fill_ca()
            self._fill_leaf(plan.DRAFT_CERT, plan.DRAFT_KEY, draft_name, is_server=True)
            self._fill_leaf(plan.GATEWAY_CERT, plan.GATEWAY_KEY, plan.GATEWAY_NAME, is_server=False)
            self._make(plan.METRICS_TOKEN, _token)
            self._fill_api_keys()
        except OSError as error:
            raise BadSettings(f"--cluster {self._root}: {error}") from error
        return self._made

    def _fill_curve(self, secret: str, public: str) -> None:
        if self._has(secret):
            try:
                public_key, secret_key = load_certificate(self._root / secret)
            except ValueError as error:
                raise BadSettings(f"{self._root / secret}: {error}; remove it") from error
            if secret_key is None:
                raise BadSettings(f"{self._root / secret} holds no secret key; remove it")
        else:
            self._refuse_orphan(public, secret)
            public_key, secret_key = zmq.curve_keypair()
            self._make(secret, lambda: _curve_file(public_key, secret_key))
        self._make(public, lambda: _curve_file(public_key))

    def _fill_ca(self) -> None:
        if self._has(plan.CA) and not self._has(plan.CA_KEY):
            return  # it is kept elsewhere, which is well as long as nothing is to be signed
        self._make(plan.CA_KEY, make_key)
        self._make(plan.CA, lambda: self._checked(plan.CA_KEY, lambda key: make_ca(key, self._now)))
        self._made.ends[plan.CA] = self._checked(plan.CA, read_leaf).ends

    def _fill_leaf(self, cert: str, key: str, name: str, is_server: bool) -> None:
        if self._has(cert):
            leaf = self._checked(cert, read_leaf)
            if name not in leaf.names:
                raise BadSettings(
                    f"{self._root / cert} is for {', '.join(leaf.names)}, not for {name}; "
                    "remove it to have a new one"
                )
            self._refuse_orphan(cert, key)
        else:
            if not self._has(plan.CA_KEY):
                raise BadSettings(
                    f"{self._root / plan.CA_KEY} is needed to sign {cert}; put it back, or remove "
                    f"{plan.CA} and all certificates to begin anew"
                )
            self._make(key, make_key)
            self._make(cert, lambda: self._signed(key, name, is_server))
        self._made.ends[cert] = self._checked(cert, read_leaf).ends

    def _signed(self, key: str, name: str, is_server: bool) -> bytes:
        try:
            ca, ca_key = self._read(plan.CA), self._read(plan.CA_KEY)
            return make_leaf(name, is_server, self._read(key), ca, ca_key, self._now)
        except BadKeyFile as error:
            raise BadSettings(f"{self._root / 'tls'}: {error}") from error

    def _fill_api_keys(self) -> None:
        if not self._has(plan.API_KEYS):
            self._made.api_key = make_api_key()
            line = key_line(FIRST_KEY_NAME, self._made.api_key)
            self._make(plan.API_KEYS, lambda: f"{line}\n".encode())

    def _refuse_orphan(self, path: str, secret: str) -> None:
        if self._has(path) and not self._has(secret):
            raise BadSettings(
                f"{self._root / path} is there without {secret}; put that back, or remove {path} "
                "to have both anew"
            )

    def _checked(self, path: str, read: Callable[[bytes], T]) -> T:
        try:
            return read(self._read(path))
        except BadKeyFile as error:
            raise BadSettings(f"{self._root / path}: {error}") from error

    def _read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def _has(self, path: str) -> bool:
        return (self._root / path).exists()

    def _make(self, path: str, content: Callable[[], bytes]) -> None:
        """Writes a file that is not there; whoever makes it at the same time wins or loses."""
        if self._has(path):
            return
        is_secret = next(one.is_secret for one in plan.FILES if one.path == path)
        data = content()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        number = os.open(self._root / path, flags, SECRET_MODE if is_secret else PUBLIC_MODE)
        with os.fdopen(number, "wb") as file:
            file.write(data)
        self._made.paths.append(path)


def _token() -> bytes:
    return f"{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode()


def _curve_file(public: bytes, secret: bytes | None = None) -> bytes:
    """The form that pyzmq reads."""
    lines = ["metadata", "curve", f'    public-key = "{public.decode()}"']
    if secret is not None:
        lines.append(f'    secret-key = "{secret.decode()}"')
    return ("\n".join(lines) + "\n").encode()
