"""What form an answer must have: a JSON schema, a regular expression or a grammar."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Self

from outrider.protocol.errors import InvalidField
from outrider.v1 import decoding_pb2

MAX_GRAMMAR_BYTES = 64 * 2**10


class GrammarKind(Enum):
    """The values are the names of the proto fields."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"


@dataclass(frozen=True, slots=True)
class Grammar:
    """One grammar, not looked into here.

    Args:
        kind: How to read it.
        text: 1 to MAX_GRAMMAR_BYTES bytes.

    Raises:
        InvalidField: The text is empty or too long, or a schema is not a JSON object.
    """

    kind: GrammarKind
    text: str

    def __post_init__(self) -> None:
        size = len(self.text.encode())
        if not 1 <= size <= MAX_GRAMMAR_BYTES:
            raise InvalidField(
                f"sampling.grammar.{self.kind.value}",
                f"must have 1 to {MAX_GRAMMAR_BYTES} bytes, got {size}",
            )
        if self.kind is GrammarKind.JSON_SCHEMA:
            try:
                schema = json.loads(self.text)
            except (ValueError, RecursionError) as error:
                raise InvalidField("sampling.grammar.json_schema", f"is no JSON: {error}") from None
            if not isinstance(schema, dict):
                raise InvalidField("sampling.grammar.json_schema", "must be a JSON object")

    @classmethod
    def from_proto(cls, proto: decoding_pb2.Sampling) -> Self | None:
        """The grammar of a request, where it has one.

        Raises:
            InvalidField: As for the class, or no kind is chosen.
        """
        if not proto.HasField("grammar"):
            return None
        name = proto.grammar.WhichOneof("kind")
        if name is None:
            raise InvalidField("sampling.grammar", "needs json_schema, regex or lark")
        return cls(GrammarKind(name), getattr(proto.grammar, name))

    def to_proto(self) -> decoding_pb2.Grammar:
        """The message."""
        return decoding_pb2.Grammar(**{self.kind.value: self.text})
