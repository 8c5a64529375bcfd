"""Settings of a process: one frozen model, a pure function of flags and an environment mapping.

Flags win over the environment, the environment over the defaults. A field `http_port` of a service
with the prefix `OUTRIDER_GATEWAY_` is `--http-port` or `OUTRIDER_GATEWAY_HTTP_PORT`. An empty
environment value counts as unset. A wrong or unknown name stops the start and says which.
"""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

EXIT_BAD_SETTINGS = 78  # EX_CONFIG of sysexits.h

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class BadSettings(Exception):
    """A setting that cannot be used; the message names it, its value and what is allowed."""


class Settings(BaseModel):
    """Base of each service's settings; a field's `description` is the help of its flag."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=False)

    program: ClassVar[str]
    env_prefix: ClassVar[str]


S = TypeVar("S", bound=Settings)


def load_settings(cls: type[S], argv: Sequence[str], environ: Mapping[str, str]) -> S:
    """Reads settings from flags and environment.

    Args:
        cls: The service's settings.
        argv: Flags, without the program's name.
        environ: Environment.

    Returns:
        The checked settings.

    Raises:
        BadSettings: A name is unknown or a value is refused.
        SystemExit: `--help` was given (status 0).
    """
    flags = _read_flags(cls, argv)
    values = {**_read_environment(cls, environ), **flags}
    try:
        return cls.model_validate(values)
    except ValidationError as error:
        raise BadSettings(_explain(cls, error, set(flags))) from None


def load_settings_or_exit(cls: type[S], argv: Sequence[str], environ: Mapping[str, str]) -> S:
    """As `load_settings`, but a bad setting is one line on stderr and exit status 78."""
    try:
        return load_settings(cls, argv, environ)
    except BadSettings as error:
        exit_for_bad_settings(cls.program, str(error))


def exit_for_bad_settings(program: str, message: str) -> NoReturn:
    """Ends the process with status 78 and one line that says why."""
    sys.stderr.write(f"{program}: {message}\n")
    raise SystemExit(EXIT_BAD_SETTINGS)


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The end of an error about an unknown name: the known one that is near, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadSettings(message)


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def _read_flags(cls: type[Settings], argv: Sequence[str]) -> dict[str, str]:
    parser = _Parser(prog=cls.program, description=cls.__doc__, allow_abbrev=False)
    for field, info in cls.model_fields.items():
        default = "" if info.is_required() else f" (default: {info.default})"
        text = f"{info.description or ''}{default} [{cls.env_prefix}{field.upper()}]"
        parser.add_argument(
            _flag(field),
            dest=field,
            default=argparse.SUPPRESS,
            metavar="VALUE",
            help=text.replace("%", "%%"),
        )
    known, unknown = parser.parse_known_args(list(argv))
    if unknown:
        raise BadSettings(_unknown(unknown[0], [_flag(field) for field in cls.model_fields]))
    return dict(vars(known))


def _read_environment(cls: type[Settings], environ: Mapping[str, str]) -> dict[str, str]:
    names = {f"{cls.env_prefix}{field.upper()}": field for field in cls.model_fields}
    values: dict[str, str] = {}
    for name in sorted(environ):
        if not name.startswith(cls.env_prefix):
            continue
        if name not in names:
            raise BadSettings(_unknown(name, list(names)))
        if environ[name].strip():
            values[names[name]] = environ[name].strip()
    return values


def _unknown(name: str, known: list[str]) -> str:
    return f"unknown setting {name}{did_you_mean(name, known)}"


def _explain(cls: type[Settings], error: ValidationError, from_flags: set[str]) -> str:
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    if not field:
        return first["msg"].removeprefix("Value error, ")
    name = _flag(field) if field in from_flags else f"{cls.env_prefix}{field.upper()}"
    if first["type"] == "missing":
        return f"{_flag(field)} is needed (or {cls.env_prefix}{field.upper()})"
    message = first["msg"].removeprefix("Value error, ")
    return f"{name}: {message} (got {first['input']!r})"
