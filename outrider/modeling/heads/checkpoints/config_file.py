"""A `config.json`, read with its types checked.

Knows no format: it only turns a wrong or missing value into words. `null` counts as absent, as
it does for the libraries that write these files.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint

CONFIG_NAME = "config.json"


class ConfigFile(Mapping[str, Any]):
    """The values of one JSON object that are not null.

    Args:
        values: As parsed.
        where: What to call the object in messages.
    """

    def __init__(self, values: Mapping[str, Any], where: str = CONFIG_NAME) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._where = where

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number above 0.

        Raises:
            BadCheckpoint: It is missing without a default, or something else.
        """
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(name, "a whole number above 0")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number above 0.

        Raises:
            BadCheckpoint: It is missing without a default, or something else.
        """
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self._wrong(name, "a number above 0")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false.

        Raises:
            BadCheckpoint: It is something else.
        """
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def word(self, name: str, default: str) -> str:
        """A string.

        Raises:
            BadCheckpoint: It is something else.
        """
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """A list of strings; empty where it is absent.

        Raises:
            BadCheckpoint: It is something else.
        """
        value = self.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of strings")
        return tuple(value)

    def layer_ids(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers of at least 0; None where it is absent.

        Raises:
            BadCheckpoint: It is something else.
        """
        if name not in self:
            return None
        value = self[name]
        is_list = isinstance(value, list) and bool(value)
        if not is_list or not all(type(item) is int and item >= 0 for item in value):
            raise self._wrong(name, "a list of layer numbers")
        return tuple(value)

    def section(self, name: str) -> "ConfigFile":
        """An object within; empty where it is absent.

        Raises:
            BadCheckpoint: It is something else.
        """
        value = self.get(name, {})
        if not isinstance(value, Mapping):
            raise self._wrong(name, "an object")
        return ConfigFile(value, f"{self._where}, {name}")

    def _value(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is None:
            raise BadCheckpoint(f"{self._where}: {name} is missing")
        return value

    def _wrong(self, name: str, wanted: str) -> BadCheckpoint:
        return BadCheckpoint(f"{self._where}: {name} must be {wanted}, not {self[name]!r}")


def read_config_file(folder: Path) -> ConfigFile:
    """Reads the `config.json` of a folder.

    Raises:
        BadCheckpoint: It is not there, or not a JSON object.
    """
    try:
        values = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadCheckpoint(f"{CONFIG_NAME} cannot be read: {reason}") from None
    if not isinstance(values, dict):
        raise BadCheckpoint(f"{CONFIG_NAME} is not a JSON object")
    return ConfigFile(values)
