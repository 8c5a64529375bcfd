"""Prompts: what a file may hold, which are the same, and in which order they are taken. Pure."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from outrider.training.conversation import BadConversations

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Args:
        role: One of `ROLES`.
        content: Its text.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the target is asked; the last message is the user's.

    Args:
        messages: At least one, oldest first.
    """

    messages: tuple[Message, ...]

    @property
    def digest(self) -> str:
        """Hash of roles and texts; case and spaces do not matter."""
        digest = hashlib.blake2b(digest_size=16)
        for one in self.messages:
            text = " ".join(one.content.casefold().split())
            digest.update(f"{one.role}\x00{text}\x01".encode())
        return digest.hexdigest()


def user_prompt(text: str) -> Prompt:
    """A single message of the user's."""
    return Prompt((Message("user", text),))


def read_prompt(row: object, where: str) -> Prompt:
    """Checks one row: `{"text": ...}` or `{"messages": [{"role": ..., "content": ...}, ...]}`.

    Args:
        row: As parsed from JSON.
        where: File and line, for messages.

    Raises:
        BadConversations: It is neither.
    """
    if isinstance(row, dict) and isinstance(row.get("text"), str) and row["text"].strip():
        return user_prompt(row["text"].strip())
    listed = row.get("messages") if isinstance(row, dict) else None
    if not isinstance(listed, list) or not listed:
        raise BadConversations(f"{where}: neither a text nor a list of messages")
    messages = tuple(_read_message(one, where) for one in listed)
    if messages[-1].role != "user":
        raise BadConversations(f"{where}: the last message must be the user's")
    return Prompt(messages)


@dataclass(frozen=True, slots=True)
class Opening:
    """First words of a prompt that the target goes on with.

    Args:
        text: The words; empty: it begins itself.
        max_tokens: Most tokens that it adds; None: as many as for the others.
    """

    text: str
    max_tokens: int | None = None


def read_opening(row: object, where: str) -> Opening:
    """Checks one row: `{"text": ...}`, with `max_tokens` if the prompt may be longer than others.

    Args:
        row: As parsed from JSON.
        where: File and line, for messages.

    Raises:
        BadConversations: It is not of that shape.
    """
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise BadConversations(f"{where}: an opening needs a text")
    most = row.get("max_tokens")
    if most is not None and (type(most) is not int or most < 1):
        raise BadConversations(f"{where}: max_tokens must be a whole number of at least 1")
    return Opening(row["text"], most)


def openings_digest(openings: Iterable[Opening]) -> str:
    """Hash of the openings in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for one in openings:
        digest.update(f"{one.text}\x00{one.max_tokens}\x01".encode())
    return digest.hexdigest()


def in_order(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Each prompt once, in the order of their digests: a fixed order with no meaning of its own."""
    unique = {prompt.digest: prompt for prompt in prompts}
    return [unique[digest] for digest in sorted(unique)]


def _read_message(row: object, where: str) -> Message:
    role = row.get("role") if isinstance(row, dict) else None
    content = row.get("content") if isinstance(row, dict) else None
    if role not in ROLES or not isinstance(content, str):
        raise BadConversations(
            f"{where}: a message needs a role ({', '.join(ROLES)}) and a text as content"
        )
    return Message(role, content)
