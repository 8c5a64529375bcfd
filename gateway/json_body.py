"""JSON bodies: strict in form, with an error that names the field. Knows no request."""

import json
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outrider.protocol.errors import InvalidField

Uint32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
Uint64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Float32 = Annotated[float, Field(allow_inf_nan=False, ge=-3.4e38, le=3.4e38)]


class StrictBody(BaseModel):
    """Base of bodies: no other types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


B = TypeVar("B", bound=StrictBody)


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
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidField("body", f"is not valid JSON: {reason}") from None
    try:
        return cls.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidField(
            _path(first["loc"]), first["msg"].removeprefix("Value error, ")
        ) from None


def read_logit_bias(field: str, bias: dict[str, float] | None) -> dict[int, float]:
    """Keys of JSON objects are texts; these are token ids.

    Raises:
        InvalidField: One is not.
    """
    try:
        token_ids = {int(key): value for key, value in (bias or {}).items()}
    except ValueError:
        raise InvalidField(field, "keys must be token ids") from None
    if any(not 0 <= token_id < 2**32 for token_id in token_ids):
        raise InvalidField(field, "keys must be token ids")
    return token_ids


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "body"
