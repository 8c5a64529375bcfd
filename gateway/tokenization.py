"""The target's tokenizer: prompts and conversations to token ids. Knows no requests, no torch.

A special token's text inside a client's message is text: it never becomes a control token.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from gateway.chat_template import ChatMessage, ChatTemplate
from gateway.token_pieces import TokenPieces, read_token_pieces
from outrider.protocol.errors import InvalidField
from outrider.protocol.fingerprints import tokenizer_fingerprint


class BadModelFolder(ValueError):
    """A model folder that cannot be used; the message says what is wrong with it."""


class PromptTokenizer:
    """Encodes prompts for one target.

    Args:
        tokenizer: The target's tokenizer; it becomes this object's own.
        chat_template: None: the model has none, and conversations cannot be encoded.
        vocab_size: Vocabulary that the model's configuration states; None: not known.
        fingerprint: Of its tokenizer.json; "": not known.

    Raises:
        UnknownDecoder: Its token ids cannot be turned into text piece by piece.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        chat_template: ChatTemplate | None = None,
        vocab_size: int | None = None,
        fingerprint: str = "",
    ) -> None:
        self.fingerprint = fingerprint
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._literal_tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._literal_tokenizer.encode_special_tokens = True
        self._chat_template = chat_template
        self.vocab_size = vocab_size
        self.pieces: TokenPieces = read_token_pieces(tokenizer)
        special = {
            token.content: token_id
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        self._special_token_ids = special
        self._special_names = {token_id: name for name, token_id in special.items()}
        longest_first = sorted(special, key=len, reverse=True)
        # (?!) never matches: a tokenizer may have no special tokens.
        self._special_tokens = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Reads a model folder.

        Args:
            folder: With tokenizer.json; config.json, tokenizer_config.json and
                chat_template.jinja are read where they exist.

        Raises:
            BadModelFolder: A file is missing or cannot be read.
        """
        path = folder / "tokenizer.json"
        try:
            text = path.read_text(encoding="utf-8")
            tokenizer, fingerprint = Tokenizer.from_str(text), tokenizer_fingerprint(text)
        except FileNotFoundError:
            raise BadModelFolder(f"{folder} has no tokenizer.json") from None
        except Exception as error:  # tokenizers raises plain Exception
            raise BadModelFolder(f"{path} is not a tokenizer: {error}") from None
        vocab_size = _read_json(folder / "config.json").get("vocab_size")
        try:
            return cls(tokenizer, _read_chat_template(folder), vocab_size, fingerprint)
        except ValueError as error:
            raise BadModelFolder(f"{folder}: {error}") from None

    @property
    def token_id_end(self) -> int:
        """All ids are below this number."""
        return len(self.pieces.pieces)

    @property
    def special_tokens(self) -> Mapping[int, str]:
        """Names of the special tokens, by id; they add nothing to a text."""
        return self._special_names

    @property
    def has_chat_template(self) -> bool:
        """True where conversations can be encoded."""
        return self._chat_template is not None

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a plain prompt, with the special tokens that the tokenizer itself adds."""
        return _encode(self._tokenizer, text, add_special_tokens=True)

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """Ids of a conversation, up to where the assistant's answer begins.

        Args:
            messages: At least one, oldest first.

        Returns:
            What transformers' `apply_chat_template` gives, save that special tokens written in a
            message are encoded as text.

        Raises:
            InvalidField: The template refuses the conversation.
            ValueError: The model has no chat template.
        """
        if self._chat_template is None:
            raise ValueError("the model has no chat template")
        contents = "".join(message.content for message in messages)
        if not self._special_tokens.search(contents):
            return _encode(self._tokenizer, self._chat_template.render(messages))
        mark = _unused_character(contents)
        hidden = [
            ChatMessage(role, self._special_tokens.sub(self._hide(mark), content))
            for role, content in messages
        ]
        return self._encode_hidden(self._chat_template.render(hidden), mark)

    def _hide(self, mark: str) -> Callable[[re.Match[str]], str]:
        """Writes a special token of a message so that it cannot be taken for the template's own."""
        return lambda found: f"{mark}{self._special_token_ids[found[0]]}{mark}"

    def _encode_hidden(self, text: str, mark: str) -> list[int]:
        """Encodes a rendered conversation: what stands between its control tokens is text."""
        names = self._special_names
        hidden = re.compile(f"{mark}([0-9]+){mark}")

        def encode_text(part: str) -> list[int]:
            shown = hidden.sub(lambda found: names[int(found[1])], part)
            return _encode(self._literal_tokenizer, shown)

        token_ids: list[int] = []
        start = 0
        for control in self._special_tokens.finditer(text):
            token_ids += encode_text(text[start : control.start()])
            token_ids.append(self._special_token_ids[control[0]])
            start = control.end()
        return token_ids + encode_text(text[start:])


def _encode(tokenizer: Tokenizer, text: str, add_special_tokens: bool = False) -> list[int]:
    # The batch form, because it alone lets other threads run meanwhile.
    (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    return list(encoding.ids)


def _unused_character(text: str) -> str:
    used = set(text)
    for code in range(0x10FFFF, 0xFFFF, -1):
        if chr(code) not in used:
            return chr(code)
    raise InvalidField("chat", "uses every character beyond the basic plane")


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where the file does not exist."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BadModelFolder(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadModelFolder(f"{path} is not a JSON object")
    return value


def _read_chat_template(folder: Path) -> ChatTemplate | None:
    config = _read_json(folder / "tokenizer_config.json")
    path = folder / "chat_template.jinja"
    source = path.read_text(encoding="utf-8") if path.exists() else config.get("chat_template")
    if isinstance(source, list):  # several named ones
        source = {entry["name"]: entry["template"] for entry in source}.get("default")
    if source is None:
        return None
    return ChatTemplate(source, _read_special_tokens(config))


def _read_special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """The tokens a template may name, such as `bos_token`; each is text or an object with it."""
    tokens: dict[str, str] = {}
    for name, value in config.items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            tokens[name] = content
    return tokens
