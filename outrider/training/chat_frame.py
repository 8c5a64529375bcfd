"""How the target's chat template frames what is said, as token ids."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoTokenizer

from outrider.settings import BadSettings
from outrider.training.prompts import Prompt

_MARK = "OUTRIDER"  # stands for the user's words while the template is taken apart


class UserTurn(NamedTuple):
    """Where the user speaks.

    Args:
        begin_ids: All that the template puts before the user's first words.
        end_ids: First token of what it puts behind them; empty where it puts nothing.
    """

    begin_ids: list[int]
    end_ids: list[int]


class ChatFrame:
    """A tokenizer with its template.

    Args:
        folder: Of the target.

    Raises:
        BadSettings: There is no tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise BadSettings(f"--model {folder}: no tokenizer: {error}") from error

    @property
    def has_template(self) -> bool:
        """True where messages can be framed."""
        return bool(self._tokenizer.chat_template)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """A prompt up to where the answer begins; a single text as it is where there is no
        template.

        Raises:
            BadSettings: There are several messages and no template.
        """
        if self.has_template:
            messages = [{"role": one.role, "content": one.content} for one in prompt.messages]
            text = self._render(messages, add_generation_prompt=True)
            return self._encode(text)
        if len(prompt.messages) > 1:
            raise BadSettings("the target has no chat template for prompts of several messages")
        return list(self._tokenizer(prompt.messages[0].content)["input_ids"])

    def user_turn(self, opening: str = "") -> UserTurn:
        """What the target is given so that it writes the user's part.

        Args:
            opening: The user's first words, so that it goes on from there.

        Raises:
            BadSettings: There is no template, or it hides where the user's words begin.
        """
        if not self.has_template:
            raise BadSettings(
                "the target has no chat template, so it cannot write prompts: name --prompt-file"
            )
        text = self._render([{"role": "user", "content": _MARK}], add_generation_prompt=False)
        begin, mark, end = text.partition(_MARK)
        if not mark:
            raise BadSettings("the target's chat template leaves the user's words out")
        return UserTurn(self._encode(begin + opening), self._encode(end)[:1] if end else [])

    def words(self, token_ids: Sequence[int]) -> str:
        """What the ids say, control tokens left out."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _render(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=add_generation_prompt
            )
        )

    def _encode(self, text: str) -> list[int]:
        # The template has put the control tokens there already.
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
