"""Fingerprints by which two processes notice that they were started for different models."""

import hashlib
import json

# What decides which text becomes which ids; padding, truncation and formatting do not.
_MEANINGFUL_PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "model", "decoder")


def tokenizer_fingerprint(tokenizer_json: str) -> str:
    """SHA-256 over the parts of a `tokenizer.json` that decide ids and text.

    Args:
        tokenizer_json: Content of the file.

    Returns:
        64 hexadecimal digits, the same however the file is laid out.

    Raises:
        ValueError: The text is not a JSON object.
    """
    content = json.loads(tokenizer_json)
    if not isinstance(content, dict):
        raise ValueError("a tokenizer.json holds one JSON object")
    parts = {name: content.get(name) for name in _MEANINGFUL_PARTS}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
