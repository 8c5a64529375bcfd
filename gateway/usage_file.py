"""Keeps what keys have used in a file, so that a restart gives nobody new tokens.

Shell around `quotas.py`: JSON, replaced as a whole, so that a crash leaves the old one or the new.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gateway.quotas import Quotas, Usage

INTERVAL_S = 10.0

_logger = logging.getLogger(__name__)
_adapter = TypeAdapter(dict[str, Usage])


class BadUsageFile(ValueError):
    """A file of usage that cannot be used; the message says why."""


class UsageFile:
    """One file, which no other process writes.

    Args:
        path: Made where it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Mapping[str, Usage] = {}

    def read(self) -> Quotas:
        """What was used so far; nothing where there is no file yet.

        Raises:
            BadUsageFile: It cannot be read or written, or holds something else.
        """
        try:
            self._written = _adapter.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            self._written = {}
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is no record of usage"
            raise BadUsageFile(reason or "cannot be read") from None
        try:
            self._write(self._written)
        except OSError as error:
            raise BadUsageFile(f"cannot be written: {error.strerror}") from None
        return Quotas(self._written)

    async def keep(self, quotas: Quotas) -> None:
        """Writes what has changed, again and again, and once more when it is cancelled."""
        try:
            while True:
                await asyncio.sleep(INTERVAL_S)
                await asyncio.to_thread(self.save, quotas.usage)
        finally:
            self.save(quotas.usage)

    def save(self, usage: Mapping[str, Usage]) -> None:
        """Writes what has changed; where that fails, a warning is logged and serving goes on."""
        if usage == self._written:
            return
        try:
            self._write(usage)
        except OSError as error:
            _logger.warning("usage of keys was not saved in %s: %s", self._path, error.strerror)
            return
        self._written = usage

    def _write(self, usage: Mapping[str, Usage]) -> None:
        temporary = self._path.with_name(f"{self._path.name}.new")
        with temporary.open("wb") as file:
            file.write(_adapter.dump_json(dict(usage), indent=1))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
