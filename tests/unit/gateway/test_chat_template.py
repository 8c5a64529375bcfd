"""Chat templates: transformers' Jinja dialect, in a sandbox."""

from datetime import datetime

import pytest

from gateway.chat_template import ChatMessage, ChatTemplate
from outrider.protocol.errors import InvalidField

HELLO = [ChatMessage("user", "hello <b>")]


def render(source: str, **special_tokens: str) -> str:
    template = ChatTemplate(source, special_tokens, now=lambda: datetime(2026, 3, 1))
    return template.render(HELLO)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages[0]['role'] }}:{{ messages[0].content }}", "user:hello <b>"),
        ("{{ bos_token }}x", "<s>x"),
        ("{% if add_generation_prompt %}\n  go\n{% endif %}", "  go\n"),
        ("  {% if tools is none and documents is none %}x{% endif %}", "x"),
        ("{{ {'a': '<é>'} | tojson }}", '{"a": "<é>"}'),
        ("{{ {'a': 1} | tojson(indent=1) }}", '{\n "a": 1\n}'),
        ("{{ strftime_now('%d %b %Y') }}", "01 Mar 2026"),
        ("{% for m in messages %}{% break %}{% endfor %}x", "x"),
        ("a{% generation %}b{{ messages[0].role }}{% endgeneration %}c", "abuserc"),
        ("{% if strftime_now is defined %}y{% endif %}", "y"),
    ],
)
def test_the_dialect(source: str, text: str) -> None:
    assert render(source, bos_token="<s>") == text


def test_a_conversation_that_the_template_refuses_is_the_clients_fault() -> None:
    with pytest.raises(InvalidField, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.field == "chat"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append('x') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages[0].role.__class__.__base__.__subclasses__()[0] }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(InvalidField):
        render(source)


def test_a_clients_text_is_never_a_template() -> None:
    template = ChatTemplate("{{ messages[0].content }}", {})
    assert template.render([ChatMessage("user", "{{ 7 * 7 }}")]) == "{{ 7 * 7 }}"


def test_a_broken_template_is_refused() -> None:
    with pytest.raises(ValueError, match="chat template"):
        ChatTemplate("{% if %}", {})
