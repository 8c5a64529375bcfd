"""Bodies in the shape of Text Generation Inference (TGI), as the request that gRPC carries.

Only the form is checked here; ranges are the business of `requests.py`. A parameter that would
change the answer and is not done here is refused by its name.
"""

import json
from typing import Any, Literal

from pydantic import Field

from gateway.http_body import GenerateBody
from gateway.json_body import (
    Items,
    Number,
    StrictBody,
    Uint32,
    Uint64,
    field_names,
    read_fields,
    write_json,
)
from outrider.protocol.errors import InvalidField, NotSupported
from outrider.v1 import decoding_pb2, generation_pb2

TEMPERATURE = 1.0  # where a request is sampled and names none

_FIELDS = {
    "prompt": "inputs",
    "top_logprobs": "parameters.top_n_tokens",
    "sampling.grammar": "parameters.grammar",
}


class TgiGrammar(StrictBody):
    """What form the answer must have."""

    type: Literal["json", "json_object", "json_schema", "regex"]
    value: Any

    def to_proto(self) -> decoding_pb2.Grammar:
        """The message.

        Raises:
            InvalidField: The value is of another type.
        """
        value = self.value
        if self.type == "regex" and isinstance(value, str):
            return decoding_pb2.Grammar(regex=value)
        if self.type == "json_schema" and isinstance(value, dict):
            value = value.get("schema")
        elif self.type != "regex" and isinstance(value, str):
            value = _schema_of(value)
        if self.type == "regex" or not isinstance(value, dict):
            raise InvalidField("parameters.grammar.value", f"does not fit the type {self.type}")
        if "properties" in value:
            value = {"type": "object"} | value  # without it a number would fit, but not in TGI
        schema = write_json("parameters.grammar.value", value)
        return decoding_pb2.Grammar(json_schema=schema)


class TgiParameters(StrictBody):
    """How the answer is drawn, where it ends, and what is told of it."""

    max_new_tokens: Uint32 | None = Field(None, ge=1)
    stop: Items[str] = Field(default_factory=list)
    do_sample: bool = False
    temperature: Number | None = Field(None, gt=0)
    top_k: Uint32 | None = Field(None, ge=1)
    top_p: Number | None = None
    seed: Uint64 | None = None
    repetition_penalty: Number | None = None
    frequency_penalty: Number | None = None
    grammar: TgiGrammar | None = None
    details: bool = False
    top_n_tokens: Uint32 | None = None
    return_full_text: bool | None = None
    # Refused where they ask for anything.
    adapter_id: str | None = None
    best_of: Uint32 | None = None
    decoder_input_details: bool = False
    truncate: Uint32 | None = None
    typical_p: Number | None = None
    watermark: bool = False

    @property
    def is_sampled(self) -> bool:
        """TGI samples where it is told to, and wherever a filter is set; else it is greedy."""
        has_filter = self.top_k is not None or (self.top_p is not None and self.top_p < 1)
        return self.do_sample or self.temperature not in (None, TEMPERATURE) or has_filter

    def check_supported(self) -> None:
        """Raises:
        NotSupported: One of them is not done here.
        """
        for name, is_off in (
            ("adapter_id", self.adapter_id is None),
            ("best_of", self.best_of in (None, 1)),
            ("decoder_input_details", not self.decoder_input_details),
            ("truncate", self.truncate is None),
            ("typical_p", self.typical_p is None),
            ("watermark", not self.watermark),
        ):
            if not is_off:
                raise NotSupported(f"parameters.{name}", "is not supported; leave it out")

    def sampling(self, drawn_seed: int) -> decoding_pb2.Sampling:
        """How tokens are drawn.

        Args:
            drawn_seed: Used where the answer is sampled and no seed is named.
        """
        sampling = decoding_pb2.Sampling(
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty,
            grammar=self.grammar.to_proto() if self.grammar is not None else None,
            top_k=self.top_k,
            top_p=self.top_p,
        )
        if self.is_sampled:
            sampling.temperature = TEMPERATURE if self.temperature is None else self.temperature
            sampling.seed = drawn_seed if self.seed is None else self.seed
        return sampling


class TgiBody(StrictBody):
    """A request."""

    inputs: str
    parameters: TgiParameters | None = None
    stream: bool | None = None

    @property
    def asked(self) -> TgiParameters:
        """The parameters, where none are given the defaults."""
        return self.parameters or TgiParameters()  # type: ignore[call-arg]  # all have defaults

    def to_proto(self, drawn_seed: int, *, streams: bool) -> generation_pb2.GenerateRequest:
        """The gRPC request that this body stands for.

        Args:
            drawn_seed: 0 to 2**64 - 1; used where the answer is sampled and no seed is named.
            streams: True: each token is told as it comes.

        Raises:
            InvalidField: A value does not fit, or text is not Unicode.
            NotSupported: A parameter is not done here.
        """
        asked = self.asked
        asked.check_supported()
        top_count = asked.top_n_tokens or 0
        try:
            return generation_pb2.GenerateRequest(
                prompt=self.inputs,
                sampling=asked.sampling(drawn_seed),
                limits=generation_pb2.Limits(max_new_tokens=asked.max_new_tokens, stop=asked.stop),
                logprobs=streams or asked.details or top_count > 0,
                top_logprobs=top_count,
            )
        except UnicodeEncodeError:
            raise InvalidField("body", "holds half of a surrogate pair, which no text is") from None


def _schema_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidField("parameters.grammar.value", "is not valid JSON") from None


def is_tgi(value: Any) -> bool:
    """True where what stands in a body is meant to be of this shape."""
    return isinstance(value, dict) and ("inputs" in value or "parameters" in value)


def read_tgi(value: Any) -> TgiBody:
    """Reads what stands in a body.

    Raises:
        InvalidField: It is not of this shape, or of another one too.
    """
    if isinstance(value, dict):
        others = (field_names(GenerateBody) - field_names(TgiBody)) & value.keys()
        if others and is_tgi(value):
            raise InvalidField(
                min(others), "does not go with inputs and parameters: two shapes in one body"
            )
    return read_fields(TgiBody, value)


def tgi_field(field: str) -> str:
    """The name in such a body of a field of the gRPC request."""
    for ours, theirs in _FIELDS.items():
        if field == ours or field.startswith(f"{ours}."):
            return theirs
    for group in ("sampling.", "limits."):
        if field.startswith(group):
            return "parameters." + field.removeprefix(group)
    return field
