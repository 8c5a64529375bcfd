"""Answers and errors in the shape of Text Generation Inference. Policy: plain values.

It tells tokens one by one, and a text goes up to and with the stop string that ends it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.http_errors import HttpError
from gateway.text_stream import TextStream
from gateway.token_pieces import TokenPieces
from outrider.v1 import decoding_pb2, generation_pb2

Response = generation_pb2.GenerateResponse

UNPROCESSABLE = 422
_FIELD_STATUSES = (400, 501)  # of a field at fault; here both are UNPROCESSABLE


@dataclass(frozen=True, slots=True)
class TgiVocabulary:
    """How tokens read.

    Args:
        pieces: Bytes of each token.
        special_tokens: Names of those that add nothing to a text.
        eos_token_ids: Those that end an answer.
    """

    pieces: TokenPieces = field(repr=False)
    special_tokens: Mapping[int, str] = field(repr=False)
    eos_token_ids: frozenset[int]

    def token(self, token_id: int, log_prob: float, text: str | None = None) -> dict[str, Any]:
        """One token.

        Args:
            token_id: Its id.
            log_prob: Its log-probability.
            text: What it adds to an answer; None: how it reads by itself.
        """
        name = self.special_tokens.get(token_id)
        if text is None:
            text = self.pieces[token_id].decode("utf-8", "replace")
        return {
            "id": token_id,
            "text": text if name is None else name,
            "logprob": log_prob,
            "special": name is not None,
        }


class TgiAnswer:
    """One answer, message by message.

    Args:
        vocabulary: How tokens read.
        opening: Stands before the text: the prompt where it is wanted, or "".
        has_details: True: the end is told in detail.
        seed: With which it is drawn; None: it is greedy.
    """

    def __init__(
        self, vocabulary: TgiVocabulary, opening: str, has_details: bool, seed: int | None
    ) -> None:
        self._vocabulary = vocabulary
        self._texts = [opening]
        self._has_details = has_details
        self._seed = seed
        self._stream = TextStream(vocabulary.pieces, ())
        self._token_count = 0

    def whole(self, message: Response) -> dict[str, Any]:
        """The answer in one piece.

        Args:
            message: All of its messages joined.
        """
        rows = list(self._rows(message))
        whole: dict[str, Any] = {"generated_text": "".join(self._texts)}
        if self._has_details:
            whole["details"] = self._end(message) | {
                "prefill": [],
                "tokens": [token for token, _ in rows],
            }
            if message.top_log_probs:
                whole["details"]["top_tokens"] = [top for _, top in rows]
        return whole

    def events(self, message: Response) -> Iterator[dict[str, Any]]:
        """What one message of a stream adds: an event for each token."""
        rows = list(self._rows(message))
        before = self._token_count - len(rows)
        for place, (token, top) in enumerate(rows, 1):
            is_end = bool(message.finish_reason) and place == len(rows)
            event: dict[str, Any] = {"index": before + place, "token": token}
            if message.top_log_probs:
                event["top_tokens"] = top
            event["generated_text"] = "".join(self._texts) if is_end else None
            event["details"] = None
            if is_end and self._has_details:
                count = message.usage.prompt_tokens
                event["details"] = self._end(message) | {"input_length": count}
            yield event

    def _rows(self, message: Response) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Each token of a message, and those that could have come in its place."""
        delta = self._stream.add(message.token_ids, is_last=bool(message.finish_reason))
        self._texts.append(delta.text)
        self._token_count += len(message.token_ids)
        log_probs = message.log_probs or [0.0] * len(message.token_ids)
        tops = message.top_log_probs or [decoding_pb2.TopLogProbs()] * len(message.token_ids)
        one = self._vocabulary.token
        for row in zip(message.token_ids, log_probs, delta.token_texts, tops, strict=True):
            token_id, log_prob, text, top = row
            others = zip(top.token_ids, top.log_probs, strict=True)
            yield one(token_id, log_prob, text), [one(other, value) for other, value in others]

    def _end(self, message: Response) -> dict[str, Any]:
        return {
            "finish_reason": self._finish_reason(message),
            "generated_tokens": self._token_count,
            "seed": self._seed,
        }

    def _finish_reason(self, message: Response) -> str:
        if message.finish_reason == decoding_pb2.FINISH_REASON_LENGTH:
            return "length"
        if message.token_ids and message.token_ids[-1] in self._vocabulary.eos_token_ids:
            return "eos_token"
        return "stop_sequence"


def tgi_error_status(error: HttpError) -> int:
    """The HTTP status that goes with it."""
    return UNPROCESSABLE if error.param and error.status in _FIELD_STATUSES else error.status


def tgi_error_body(error: HttpError) -> dict[str, str]:
    """The JSON body of an error, or its event in a stream."""
    status = tgi_error_status(error)
    if status == UNPROCESSABLE:
        kind = "validation"
    elif status == 429:
        kind = "overloaded"
    else:
        kind = "generation" if status >= 500 else error.code
    return {"error": error.message, "error_type": kind}


def tgi_info(model: generation_pb2.GetModelResponse, max_stop: int, version: str) -> dict[str, Any]:
    """What is served.

    Args:
        model: Its description.
        max_stop: Most stop strings of a request.
        version: Of this service.
    """
    return {
        "model_id": model.model,
        "model_sha": None,
        "model_pipeline_tag": "text-generation",
        "max_best_of": 1,
        "max_stop_sequences": max_stop,
        "max_input_tokens": model.context_limit - 1,
        "max_total_tokens": model.context_limit,
        "max_client_batch_size": 1,
        "router": "outrider",
        "version": version,
        "sha": None,
        "docker_label": None,
    }
