"""Bodies of the OpenAI API: what is asked, as the same request that gRPC carries.

Only the form is checked here; ranges are the business of `requests.py`. Fields that OpenAI knows
and that mean nothing here are taken and passed over, fields that would change the answer are
refused, and so is whatever nobody knows.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from gateway.http_body import SpeculationBody
from gateway.json_body import (
    Count,
    Items,
    Label,
    Number,
    StrictBody,
    Uint32,
    Uint64,
    read_logit_bias,
    write_json,
)
from outrider.protocol.errors import InvalidField, NotSupported
from outrider.v1 import decoding_pb2, generation_pb2

DEFAULT_TEMPERATURE = 1.0  # OpenAI's, where the rest of this service is greedy

_FIELDS = {
    "chat": "messages",
    "limits.max_new_tokens": "max_tokens",
    "limits.min_new_tokens": "min_tokens",
    "sampling.grammar.json_schema": "response_format",
    "token_ids": "prompt",
}


class TextPart(StrictBody):
    """A part of a message; of all kinds only text."""

    type: Literal["text"]
    text: str


class Message(StrictBody):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Items[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        """All of its parts."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class JsonSchema(StrictBody):
    """A schema with its name."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    name: str
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None
    description: str | None = None


class ResponseFormat(StrictBody):
    """What form the answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def grammar(self) -> decoding_pb2.Grammar | None:
        """The grammar; None: any text.

        Raises:
            InvalidField: The schema is missing, or too deep.
        """
        if self.type == "text":
            return None
        if self.type == "json_object":
            return decoding_pb2.Grammar(json_schema='{"type": "object"}')
        if self.json_schema is None:
            raise InvalidField("response_format.json_schema", "is needed where type is json_schema")
        schema = write_json("response_format", self.json_schema.schema_)
        return decoding_pb2.Grammar(json_schema=schema)


class StreamOptions(StrictBody):
    """How a stream ends."""

    include_usage: bool = False
    include_obfuscation: bool | None = None


class OpenAiBody(StrictBody):
    """What both kinds of requests have; the last group is ours."""

    model: Label
    temperature: Number | None = None
    top_p: Number | None = None
    n: Count | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | Items[str] | None = None
    max_tokens: Uint32 | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    logit_bias: dict[str, Any] | None = None
    seed: Uint64 | None = None
    response_format: ResponseFormat | None = None
    # Known, and without a meaning here.
    user: Label | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: Label | None = None
    prompt_cache_key: Label | None = None
    # Ours.
    top_k: Uint32 | None = None
    min_p: Number | None = None
    repetition_penalty: Number | None = None
    allowed_token_ids: Items[Uint32] | None = None
    banned_token_ids: Items[Uint32] | None = None
    min_tokens: Uint32 | None = None
    stop_token_ids: Items[Uint32] | None = None
    ignore_eos: bool = False
    cache_salt: str = ""
    speculation: SpeculationBody | None = None

    @property
    def includes_usage(self) -> bool:
        """True where a stream ends with a message of usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def request(
        self, max_tokens: int | None, logprobs: bool, top_logprobs: int
    ) -> generation_pb2.GenerateRequest:
        """The request without its prompt.

        Raises:
            InvalidField: A field contradicts another, or is not well-formed.
        """
        if self.stream_options is not None and not self.stream:
            raise InvalidField("stream_options", "needs stream to be true")
        greedy_or_not = DEFAULT_TEMPERATURE if self.temperature is None else self.temperature
        grammar = self.response_format.grammar() if self.response_format else None
        stop = [self.stop] if isinstance(self.stop, str) else self.stop
        speculation = self.speculation.model_dump() if self.speculation else {}
        return generation_pb2.GenerateRequest(
            sampling=decoding_pb2.Sampling(
                temperature=greedy_or_not,
                top_p=self.top_p,
                top_k=self.top_k,
                min_p=self.min_p,
                seed=self.seed,
                repetition_penalty=self.repetition_penalty,
                presence_penalty=self.presence_penalty,
                frequency_penalty=self.frequency_penalty,
                logit_bias=read_logit_bias("logit_bias", self.logit_bias),
                allowed_token_ids=self.allowed_token_ids,
                banned_token_ids=self.banned_token_ids,
                grammar=grammar,
            ),
            limits=generation_pb2.Limits(
                max_new_tokens=max_tokens,
                min_new_tokens=self.min_tokens or 0,
                stop=stop,
                stop_token_ids=self.stop_token_ids,
                ignore_eos=self.ignore_eos,
            ),
            speculation=decoding_pb2.Speculation(**speculation),
            logprobs=logprobs,
            top_logprobs=top_logprobs,
            cache_salt=self.cache_salt,
            n=self.n if self.n is not None else 1,
        )


class ChatBody(OpenAiBody):
    """A body of /v1/chat/completions."""

    messages: Items[Message]
    max_completion_tokens: Uint32 | None = None
    logprobs: bool | None = None
    top_logprobs: Uint32 | None = None
    tools: Items[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    modalities: Items[Literal["text"]] | None = None

    def to_proto(self) -> generation_pb2.GenerateRequest:
        """The gRPC request that this body stands for.

        Raises:
            InvalidField: A field contradicts another.
            NotSupported: Tools are given.
        """
        if self.tools or self.tool_choice not in (None, "none"):
            raise NotSupported("tools", "are not supported; ask for JSON with response_format")
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise InvalidField("max_tokens", "is another name of max_completion_tokens; give one")
        most = self.max_tokens if self.max_tokens is not None else self.max_completion_tokens
        request = self.request(most, bool(self.logprobs), self.top_logprobs or 0)
        request.chat.SetInParent()
        for message in self.messages:
            role = "system" if message.role == "developer" else message.role
            request.chat.messages.add(role=role, content=message.text)
        return request


class CompletionBody(OpenAiBody):
    """A body of /v1/completions."""

    prompt: str | Items[str] | Items[Annotated[int, Field(ge=0)]] | Items[Items[Uint32]]
    logprobs: Uint32 | None = None
    best_of: Uint32 | None = None
    echo: bool | None = None
    suffix: str | None = None

    def to_proto(self) -> generation_pb2.GenerateRequest:
        """The gRPC request that this body stands for.

        Raises:
            InvalidField: There is not exactly one prompt.
            NotSupported: `echo`, `suffix` or `best_of` is given.
        """
        for name, is_off in (
            ("echo", not self.echo),
            ("suffix", not self.suffix),
            ("best_of", self.best_of in (None, self.n or 1)),
        ):
            if not is_off:
                raise NotSupported(name, "is not supported; leave it out")
        request = self.request(self.max_tokens, self.logprobs is not None, self.logprobs or 0)
        prompt: Any = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise InvalidField("prompt", f"one at a time, got {len(prompt)}; use n for answers")
            prompt = prompt[0]
        if isinstance(prompt, str):
            request.prompt = prompt
        else:
            request.token_ids.SetInParent()
            request.token_ids.ids.extend(prompt)
        return request


def openai_field(field: str) -> str:
    """The name in an OpenAI body of a field of the gRPC request."""
    if field in _FIELDS:
        return _FIELDS[field]
    for ours, theirs in (
        ("chat.messages", "messages"),
        ("token_ids.ids", "prompt"),
        ("sampling.", ""),
        ("limits.", ""),
    ):
        if field.startswith(ours):
            return theirs + field.removeprefix(ours)
    return field
