"""Renders conversations with a model's own chat template, in a sandbox.

Gives the text that `apply_chat_template(messages, add_generation_prompt=True)` of transformers
gives: the same Jinja settings, filters, globals and names. Knows no tokens. The template belongs to
whoever put the model there; a client's text is only ever data to it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from outrider.protocol.errors import InvalidField


class ChatMessage(NamedTuple):
    """One message of a conversation.

    Args:
        role: "system", "user" or "assistant".
        content: Its text.
    """

    role: str
    content: str


class ChatTemplate:
    """A compiled template.

    Args:
        source: Jinja source.
        special_tokens: Names such as "bos_token" and the tokens' text, for the template to use.
        now: Local time, for templates that state the date.

    Raises:
        ValueError: The source is not a template.
    """

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlocks, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ValueError(f"the chat template is not valid: {error}") from None
        self._special_tokens = dict(special_tokens)

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Writes a conversation up to where the assistant's answer begins.

        Args:
            messages: At least one, oldest first.

        Returns:
            The text, control tokens included.

        Raises:
            InvalidField: The template refuses the conversation.
        """
        try:
            return self._template.render(
                messages=[message._asdict() for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._special_tokens,
            )
        except TemplateError as error:
            raise InvalidField("chat", f"refused by the model's template: {error}") from None


class _GenerationBlocks(Extension):
    """Accepts `{% generation %}`, which marks the assistant's text for training, as plain text."""

    tags = {"generation"}  # noqa: RUF012  # the base class's form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: Any, **options: Any) -> str:
    """Unlike Jinja's own filter it leaves HTML characters and other alphabets as they are."""
    return json.dumps(value, **{"ensure_ascii": False, **options})
