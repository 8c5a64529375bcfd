"""Answers in the shapes of the OpenAI API: whole, or as the chunks of a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.finish_reasons import FINISH_REASON_NAMES
from gateway.token_pieces import TokenPieces
from outrider.v1 import decoding_pb2, generation_pb2

Response = generation_pb2.GenerateResponse


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """One answer's fixed fields, and how its tokens read.

    Args:
        id: Of the answer.
        created: Seconds since 1970.
        model: Name of the target.
        is_chat: True: a chat completion, else a completion.
        wants_log_probs: True: they are shown.
        pieces: Bytes of each token.
    """

    id: str
    created: int
    model: str
    is_chat: bool
    wants_log_probs: bool
    pieces: TokenPieces

    def whole(self, choices: Sequence[Response]) -> dict[str, Any]:
        """The answer in one piece.

        Args:
            choices: All messages of each choice joined, in their order.
        """
        return self._fields("chat.completion" if self.is_chat else "text_completion") | {
            "choices": [self._choice(choice) for choice in choices],
            "usage": usage_of(choices),
        }

    def opening(self, choice: int) -> dict[str, Any]:
        """The chunk before the first words of a choice of a chat: who speaks."""
        delta = {"role": "assistant", "content": ""}
        return self._chunk({"index": choice, "delta": delta, "finish_reason": None})

    def chunk(self, message: Response) -> dict[str, Any]:
        """What a message adds."""
        choice: dict[str, Any] = {"index": message.choice}
        if self.is_chat:
            choice["delta"] = {"content": message.text} if message.text else {}
        else:
            choice["text"] = message.text
        if self.wants_log_probs:
            choice["logprobs"] = self._log_probs(message)
        choice["finish_reason"] = FINISH_REASON_NAMES.get(message.finish_reason)
        return self._chunk(choice)

    def usage_chunk(self, lasts: Sequence[Response]) -> dict[str, Any]:
        """The chunk behind all choices.

        Args:
            lasts: The last message of each.
        """
        return self._chunk(None) | {"usage": usage_of(lasts)}

    def _fields(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, choice: dict[str, Any] | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return self._fields(kind) | {"choices": [] if choice is None else [choice]}

    def _choice(self, whole: Response) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": whole.choice}
        if self.is_chat:
            choice["message"] = {"role": "assistant", "content": whole.text, "refusal": None}
        else:
            choice["text"] = whole.text
        choice["logprobs"] = self._log_probs(whole) if self.wants_log_probs else None
        choice["finish_reason"] = FINISH_REASON_NAMES[whole.finish_reason]
        return choice

    def _log_probs(self, message: Response) -> dict[str, Any]:
        tops = message.top_log_probs or [decoding_pb2.TopLogProbs()] * len(message.token_ids)
        rows = list(zip(message.token_ids, message.log_probs, tops, strict=True))
        if self.is_chat:
            return {
                "content": [
                    self._token(token_id, log_prob)
                    | {
                        "top_logprobs": [
                            self._token(other, value)
                            for other, value in zip(top.token_ids, top.log_probs, strict=True)
                        ]
                    }
                    for token_id, log_prob, top in rows
                ],
                "refusal": None,
            }
        return {
            "tokens": [self._text(token_id) for token_id, _, _ in rows],
            "token_logprobs": [log_prob for _, log_prob, _ in rows],
            "top_logprobs": [
                {
                    self._text(other): value
                    for other, value in zip(top.token_ids, top.log_probs, strict=True)
                }
                for _, _, top in rows
            ],
        }

    def _token(self, token_id: int, log_prob: float) -> dict[str, Any]:
        piece = self.pieces[token_id]
        return {"token": self._text(token_id), "logprob": log_prob, "bytes": list(piece)}

    def _text(self, token_id: int) -> str:
        return self.pieces[token_id].decode("utf-8", "replace")


def usage_of(lasts: Sequence[Response]) -> dict[str, int]:
    """Tokens of the prompt, once, and of all choices.

    Args:
        lasts: The last message of each choice, or all of its messages joined.
    """
    prompt = lasts[0].usage.prompt_tokens
    completion = sum(last.usage.completion_tokens for last in lasts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
