"""JSON bodies: strict in form, with an error that names the field. Knows no request."""

import json
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from outrider.protocol.errors import InvalidField

MAX_LABEL_CHARS = 256
MAX_NAME_CHARS = 64  # of a field's name in an error: it may be one that the client made up

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
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            reason = _REFUSED.get(str(first["loc"][-1]), "is not a known field")
        raise InvalidField(_path(first["loc"]), reason) from None


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
        path += f"[{part}]" if isinstance(part, int) else f".{part[:MAX_NAME_CHARS]}"
    return path.removeprefix(".") or "body"
