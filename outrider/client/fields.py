"""A request as keywords: the fields of `GenerateRequest` without its groups. Knows no connection.

Names, units and ranges are those of protos/outrider/v1; the service checks the ranges. What is
absent or None is left to the service.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from outrider.protocol.errors import InvalidField
from outrider.v1 import decoding_pb2, generation_pb2


class Message(TypedDict):
    """One message of a conversation: "system", "user" or "assistant", and what was said."""

    role: str
    content: str


class RequestFields(TypedDict, total=False):
    """What to ask for: exactly one of prompt, chat and token_ids, and any of the others."""

    prompt: str | None
    chat: str | Sequence[Message] | None  # a text alone is the message of a user
    token_ids: Sequence[int] | None
    # How tokens are drawn.
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    seed: int | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    allowed_token_ids: Sequence[int] | None
    banned_token_ids: Sequence[int] | None
    # Form of the answer: at most one.
    json_schema: Mapping[str, Any] | str | None
    regex: str | None
    lark: str | None
    # When it ends.
    max_new_tokens: int | None
    min_new_tokens: int | None
    stop: Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    # How trees are built.
    method: str | None
    parallel_degree: int | None
    max_nodes: int | None
    depth: int | None
    validation_threshold: float | None
    speculation_disabled: bool | None
    # What comes with it.
    logprobs: bool | None
    top_logprobs: int | None
    report_rounds: bool | None
    n: int | None
    request_id: str | None
    cache_salt: str | None


_GROUPS = {
    field.name: group
    for group, message in (
        ("sampling", decoding_pb2.Sampling),
        ("limits", generation_pb2.Limits),
        ("speculation", decoding_pb2.Speculation),
    )
    for field in message.DESCRIPTOR.fields
}


def build_request(fields: RequestFields) -> generation_pb2.GenerateRequest:
    """The request.

    Args:
        fields: What to ask for.

    Raises:
        InvalidField: A value is of the wrong type, or no number that the field can hold.
        TypeError: There is no such field.
    """
    request = generation_pb2.GenerateRequest()
    for name, value in fields.items():
        if name not in RequestFields.__annotations__:
            raise TypeError(f"a request has no field {name!r}")
        if value is None:
            continue
        try:
            _set(request, name, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidField(name, str(error)) from None
    return request


def check_single(fields: RequestFields) -> None:
    """Refuses a request for several answers where one is returned.

    Raises:
        InvalidField: `n` is above 1.
    """
    if (fields.get("n") or 1) > 1:
        raise InvalidField("n", "several answers are not one; collect the chunks of generate")


def _set(request: generation_pb2.GenerateRequest, name: str, value: Any) -> None:
    match name:
        case "chat":
            messages = [Message(role="user", content=value)] if isinstance(value, str) else value
            request.chat.SetInParent()
            for message in messages:
                request.chat.messages.add(**message)
        case "token_ids":
            request.token_ids.SetInParent()
            request.token_ids.ids.extend(value)
        case "json_schema":
            text = value if isinstance(value, str) else json.dumps(value)
            request.sampling.grammar.json_schema = text
        case "regex" | "lark":
            setattr(request.sampling.grammar, name, value)
        case "speculation_disabled":
            request.speculation.disabled = value
        case "logit_bias":
            request.sampling.logit_bias.update(value)
        case "stop" | "stop_token_ids" | "allowed_token_ids" | "banned_token_ids":
            if isinstance(value, str):
                raise TypeError("must be a list, not a single text")
            getattr(getattr(request, _GROUPS[name]), name).extend(value)
        case _:
            setattr(getattr(request, _GROUPS[name]) if name in _GROUPS else request, name, value)
