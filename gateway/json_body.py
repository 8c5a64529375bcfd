"""JSON bodies: strict in form, with an error that names the field. Knows no request.

Reading ends at the first thing that is wrong: a body of a few megabytes has room for a million.
"""

import json
import re
from functools import cache
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from outrider.protocol.errors import InvalidField

MAX_ENTRIES = 100_000  # objects of a body, and keys in them
MAX_FLOAT32 = 3.4e38
MAX_LABEL_CHARS = 256
MAX_NAME_CHARS = 64  # of a field's name in an error: it may be one that the client made up

_TOKEN_ID = re.compile(r"[0-9]{1,10}")

# What may not be sent, and why: fields of other services that would be dangerous here.
_REFUSED = dict.fromkeys(
    ("chat_template", "chat_template_kwargs"),
    "templates are not taken from clients; conversations are written with the model's own",
)


def _check_label(text: str) -> str:
    if len(text) > MAX_LABEL_CHARS or not text.isprintable():
        raise ValueError(f"must be up to {MAX_LABEL_CHARS} characters, none of them control ones")
    return text


Label = Annotated[str, AfterValidator(_check_label)]
Count = Annotated[int, Field(ge=1, le=2**32 - 1)]
Uint32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
Uint64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
Number = Annotated[float, Field(allow_inf_nan=False)]

T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]


class _UnknownField(ValueError):
    """A field that nobody knows."""

    def __init__(self, name: str) -> None:
        super().__init__(_REFUSED.get(name, "is not a known field"))
        self.name = name


class StrictBody(BaseModel):
    """Base of bodies: no other types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_known_fields(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name in value:
                if name not in field_names(cls):
                    raise _UnknownField(name)
        return value


B = TypeVar("B", bound=StrictBody)


@cache
def field_names(cls: type[StrictBody]) -> frozenset[str]:
    """As they stand in JSON."""
    return frozenset(info.alias or name for name, info in cls.model_fields.items())


def read_json(cls: type[B], data: bytes) -> B:
    """Reads a body.

    Args:
        cls: What it is.
        data: UTF-8 JSON.

    Returns:
        The body, well-formed.

    Raises:
        InvalidField: It is not JSON, or a field is unknown or has the wrong type.
    """
    return read_fields(cls, read_value(data))


def read_value(data: bytes) -> Any:
    """Whatever stands in a body.

    Raises:
        InvalidField: It is not JSON.
    """
    try:
        return json.loads(
            data.decode(), object_pairs_hook=_Objects().read, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidField("body", f"is not valid JSON: {reason}") from None


def read_fields(cls: type[B], value: Any) -> B:
    """What stands in a body, as a body of this kind.

    Raises:
        InvalidField: It has no fields, or one is unknown or has the wrong type.
    """
    if not isinstance(value, dict):
        raise InvalidField("body", "must be a JSON object")
    try:
        return cls.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location, reason = first["loc"], first["msg"].removeprefix("Value error, ")
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, _UnknownField):
            location = (*location, cause.name)
        raise InvalidField(_path(location), reason) from None


def write_json(field: str, value: Any) -> str:
    """A part of a body as text again.

    Raises:
        InvalidField: It could just be read, but cannot be written.
    """
    try:
        return json.dumps(value)
    except RecursionError:
        raise InvalidField(field, "is nested too deeply") from None


def read_logit_bias(field: str, bias: dict[str, Any] | None) -> dict[int, float]:
    """Keys of JSON objects are texts; these are token ids, and the values numbers.

    Raises:
        InvalidField: One is not.
    """
    read: dict[int, float] = {}
    for key, value in (bias or {}).items():
        if not _TOKEN_ID.fullmatch(key) or int(key) >= 2**32:
            raise InvalidField(field, "keys must be token ids")
        if type(value) not in (int, float) or not -MAX_FLOAT32 <= value <= MAX_FLOAT32:
            raise InvalidField(f"{field}[{int(key)}]", "must be a number")
        read[int(key)] = float(value)
    return read


def body_in_openapi(*shapes: type[StrictBody]) -> dict[str, Any]:
    """What an OpenAPI document says of a route's body.

    Args:
        shapes: It has one of them.
    """
    schemas = [_schema(shape) for shape in shapes]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


def _schema(cls: type[StrictBody]) -> dict[str, Any]:
    """Without references, so that it may stand anywhere in a document."""
    schema = cls.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(part: Any) -> Any:
        if isinstance(part, list):
            return [resolved(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolved(definitions[part["$ref"].rpartition("/")[2]])
        return {key: resolved(value) for key, value in part.items()}

    whole: dict[str, Any] = resolved(schema)
    return whole


class _Objects:
    """Makes the objects of one body, and counts what is in them."""

    def __init__(self) -> None:
        self._entries_left = MAX_ENTRIES

    def read(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._entries_left -= 1 + len(pairs)
        if self._entries_left < 0:
            raise ValueError(f"has more than {MAX_ENTRIES} objects and keys")
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ValueError("a key appears twice in one object")
        return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part[:MAX_NAME_CHARS]}"
    return path.removeprefix(".") or "body"
