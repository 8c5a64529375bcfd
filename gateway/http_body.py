"""The JSON body of POST /generate: strict, and the same request as over gRPC.

Only the form is checked here (types, unknown fields, integers that protobuf cannot hold); ranges
are the business of `requests.py`, so that both protocols give the same verdict.
"""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from gateway.json_body import (
    Count,
    Items,
    Number,
    StrictBody,
    Uint32,
    Uint64,
    read_logit_bias,
    write_json,
)
from outrider.protocol.errors import InvalidField
from outrider.v1 import decoding_pb2, generation_pb2


class ChatMessageBody(StrictBody):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class GrammarBody(StrictBody):
    """What form the answer must have: exactly one of the three."""

    json_schema: dict[str, Any] | str | None = Field(None, description="the answer is such JSON")
    regex: str | None = Field(None, description="the whole answer matches it")
    lark: str | None = Field(None, description="a context-free grammar in the dialect of Lark")

    def to_proto(self) -> decoding_pb2.Grammar:
        """The message.

        Raises:
            InvalidField: Not exactly one is given.
        """
        given = {name: value for name, value in self if value is not None}
        if len(given) != 1:
            raise InvalidField("sampling.grammar", "needs exactly one of json_schema, regex, lark")
        ((name, value),) = given.items()
        if not isinstance(value, str):
            value = write_json(f"sampling.grammar.{name}", value)
        return decoding_pb2.Grammar(**{name: value})


class SamplingBody(StrictBody):
    """How tokens are drawn."""

    temperature: Number | None = Field(None, description="0 (greedy, the default) to 100")
    top_p: Number | None = Field(None, description="above 0, to 1 (off)")
    top_k: Uint32 | None = Field(None, description="0 is off")
    min_p: Number | None = Field(None, description="0 (off) to 1")
    seed: Uint64 | None = Field(None, description="same prompt, parameters and seed: same tokens")
    repetition_penalty: Number | None = Field(None, description="above 0, to 10; 1 is off")
    presence_penalty: Number | None = Field(None, description="-2 to 2; 0 is off")
    frequency_penalty: Number | None = Field(None, description="-2 to 2; 0 is off")
    logit_bias: dict[str, Any] | None = Field(
        None, description="token id: what is added to its logit, -100 to 100"
    )
    allowed_token_ids: Items[Uint32] | None = Field(None, description="the only ones; unset: all")
    banned_token_ids: Items[Uint32] | None = Field(None, description="these never come")
    grammar: GrammarBody | None = Field(None, description="form of the answer")


class LimitsBody(StrictBody):
    """When the answer ends."""

    max_new_tokens: Uint32 | None = Field(None, description="0 to the room left in the context")
    stop: Items[str] | None = Field(None, description="up to 4 strings of 1 to 256 bytes")
    stop_token_ids: Items[Uint32] | None = Field(None, description="up to 64 token ids")
    ignore_eos: bool = False
    min_new_tokens: Uint32 | None = Field(None, description="nothing ends the answer before")


class SpeculationBody(StrictBody):
    """How candidate trees are built; never changes a token."""

    method: str = ""
    parallel_degree: Uint32 | None = Field(None, description="1 to 64")
    max_nodes: Uint32 | None = Field(None, description="1 to the limit of the draft worker")
    depth: Uint32 | None = Field(None, description="1 to the limit of the draft worker")
    validation_threshold: Number | None = Field(None, description="above 0, to 1 (lossless)")
    disabled: bool = False


class GenerateBody(StrictBody):
    """A request: exactly one of prompt, chat and token_ids."""

    prompt: str | None = Field(None, description="plain text to continue")
    chat: Items[ChatMessageBody] | None = Field(None, description="conversation, oldest first")
    token_ids: Items[Uint32] | None = Field(None, description="tokenised prompt")
    sampling: SamplingBody = SamplingBody()  # type: ignore[call-arg]  # all fields have defaults
    limits: LimitsBody = LimitsBody()  # type: ignore[call-arg]
    speculation: SpeculationBody = SpeculationBody()  # type: ignore[call-arg]
    logprobs: bool = False
    top_logprobs: Uint32 | None = Field(None, description="0 to 20; needs logprobs")
    n: Count | None = Field(None, description="answers, 1 (the default) to 16")
    cache_salt: str = Field("", description="shares cached prompts with the same salt only")
    report_rounds: bool = Field(False, description="each event tells its round; needs stream")
    request_id: str = ""
    stream: bool | None = Field(
        None, description="server-sent events; unset: where Accept is text/event-stream"
    )
    max_new_tokens: Uint32 | None = Field(None, description="short for limits.max_new_tokens")
    temperature: Number | None = Field(None, description="short for sampling.temperature")
    seed: Uint64 | None = Field(None, description="short for sampling.seed")

    @model_validator(mode="after")
    def _check_inputs(self) -> Self:
        inputs = (self.prompt, self.chat, self.token_ids)
        if sum(value is not None for value in inputs) > 1:
            raise ValueError("exactly one of prompt, chat and token_ids is needed")
        return self

    def to_proto(self) -> generation_pb2.GenerateRequest:
        """The gRPC request that this body stands for.

        Raises:
            InvalidField: A field and its short form are both given, or text is not Unicode.
        """
        limits = self.limits.model_dump()
        sampling = self.sampling.model_dump()
        for group, name, target in (
            ("limits", "max_new_tokens", limits),
            ("sampling", "temperature", sampling),
            ("sampling", "seed", sampling),
        ):
            short = getattr(self, name)
            if short is None:
                continue
            if target[name] is not None:
                raise InvalidField(name, f"is short for {group}.{name}; give only one of the two")
            target[name] = short
        bias = read_logit_bias("sampling.logit_bias", sampling.pop("logit_bias"))
        sampling["grammar"] = self.sampling.grammar and self.sampling.grammar.to_proto()
        try:
            request = generation_pb2.GenerateRequest(
                sampling=decoding_pb2.Sampling(**sampling, logit_bias=bias),
                limits=generation_pb2.Limits(**limits),
                speculation=decoding_pb2.Speculation(**self.speculation.model_dump()),
                logprobs=self.logprobs,
                top_logprobs=self.top_logprobs or 0,
                cache_salt=self.cache_salt,
                n=self.n or 0,
                report_rounds=self.report_rounds,
                request_id=self.request_id,
            )
            self._set_input(request)
        except UnicodeEncodeError:
            raise InvalidField(
                "request", "holds half of a surrogate pair, which no text is"
            ) from None
        return request

    def _set_input(self, request: generation_pb2.GenerateRequest) -> None:
        if self.prompt is not None:
            request.prompt = self.prompt
        elif self.token_ids is not None:
            request.token_ids.ids.extend(self.token_ids)
            request.token_ids.SetInParent()
        elif self.chat is not None:
            request.chat.SetInParent()
            for message in self.chat:
                request.chat.messages.add(role=message.role, content=message.content)
