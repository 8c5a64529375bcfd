"""Grammars as values: what is refused before anybody reads them."""

import pytest

from outrider.protocol.decoding import Sampling
from outrider.protocol.errors import InvalidField
from outrider.protocol.grammar import MAX_GRAMMAR_BYTES, Grammar, GrammarKind
from outrider.v1 import decoding_pb2


@pytest.mark.parametrize("kind", GrammarKind)
@pytest.mark.parametrize("text", ["", "x" * (MAX_GRAMMAR_BYTES + 1)])
def test_a_text_of_no_size_names_its_field(kind, text):
    with pytest.raises(InvalidField) as caught:
        Grammar(kind, text)
    assert caught.value.field == f"sampling.grammar.{kind.value}"


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "[" * 5000, "3"])
def test_a_schema_is_a_json_object(text):
    with pytest.raises(InvalidField, match="JSON"):
        Grammar(GrammarKind.JSON_SCHEMA, text)


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(GrammarKind.JSON_SCHEMA, '{"type": "object"}'),
        Grammar(GrammarKind.REGEX, "[0-9]+"),
        Grammar(GrammarKind.LARK, 'start: "a"'),
        None,
    ],
)
def test_grammars_survive_the_proto(grammar):
    sampling = Sampling(grammar=grammar)
    assert Sampling.from_proto(sampling.to_proto()) == sampling


def test_one_kind_must_be_chosen():
    proto = decoding_pb2.Sampling(grammar=decoding_pb2.Grammar())
    with pytest.raises(InvalidField, match="json_schema, regex or lark"):
        Sampling.from_proto(proto)
