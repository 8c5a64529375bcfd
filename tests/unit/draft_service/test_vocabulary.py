import json

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

from draft_service.vocabulary import Vocabulary, misfit

WORDS = ["the", "coach", "rolls", "over", "a", "bridge"]


def tokenizer_json(words: list[str], added: list[str] | None = None) -> str:
    ids = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=words[0]))
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in added or []])
    return tokenizer.to_str()


def vocabulary(words: list[str], added: list[str] | None = None) -> Vocabulary:
    return Vocabulary.parsed(tokenizer_json(words, added))


def test_ids_and_tokens_are_read_added_ones_included():
    read = vocabulary(WORDS, ["<end>"])
    assert read.tokens[1] == "coach"
    assert read.tokens[6] == "<end>"
    assert read.id_end == 7


def test_the_same_tokenizer_fits_however_its_file_is_laid_out():
    text = tokenizer_json(WORDS)
    spread = json.dumps(json.loads(text), indent=4)
    assert misfit(Vocabulary.parsed(text), Vocabulary.parsed(spread)) == ""


def test_another_file_with_the_same_ids_fits():
    """Such as one that writes its merges in another form."""
    other = Vocabulary("another fingerprint", vocabulary(WORDS).tokens)
    assert misfit(other, vocabulary(WORDS)) == ""


def test_ids_that_only_one_has_do_no_harm():
    more = vocabulary(WORDS, ["<think>"])
    assert misfit(more, vocabulary(WORDS)) == ""
    assert misfit(vocabulary(WORDS), more) == ""


def test_what_differs_is_named():
    """One place at least: a token, and the sizes."""
    other = vocabulary(["the", "coach", "over", "rolls", "a", "bridge", "road"])
    assert misfit(other, vocabulary(WORDS)) == (
        "it has 7 tokens, the target 6, and 2 ids stand for different ones, "
        "such as 2 for 'over' here and 'rolls' there"
    )
    nothing = Vocabulary("none", {100: "the"})
    assert misfit(nothing, vocabulary(WORDS)) == (
        "it has 1 tokens, the target 6, and no id in common"
    )


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_what_is_no_tokenizer_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        Vocabulary.parsed(text)
