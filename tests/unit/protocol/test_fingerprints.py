import json

import pytest

from outrider.protocol.fingerprints import tokenizer_fingerprint

CONTENT: dict[str, object] = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}},
    "added_tokens": [],
    "padding": None,
}


def test_layout_and_padding_do_not_matter():
    again = {"padding": {"length": 4}, "added_tokens": [], "model": CONTENT["model"]}
    assert tokenizer_fingerprint(json.dumps(CONTENT)) == tokenizer_fingerprint(
        json.dumps(again, indent=2)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"type": "BPE", "vocab": {"a": 1, "b": 0}}},
        {"added_tokens": [{"id": 2, "content": "<end>"}]},
        {"pre_tokenizer": {"type": "ByteLevel"}},
    ],
)
def test_ids_matter(change):
    other = json.dumps({**CONTENT, **change})
    assert tokenizer_fingerprint(other) != tokenizer_fingerprint(json.dumps(CONTENT))


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_other_files_are_refused(text):
    with pytest.raises(ValueError, match=r"Expecting|JSON object"):
        tokenizer_fingerprint(text)
