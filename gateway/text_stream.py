"""Turns one stream's committed token ids into text, round by round, and ends it at a stop string.

The text ends *before* the stop string; ids and log-probabilities end *with* the token that
completes it, all cut at that token. Whatever terminates first wins: every prefix of a round is
scanned, so a stop string beats an end of sequence or a length limit later in the same round.
Without a stop string the deltas join to exactly the tokenizer's own decoding of all ids.
Policy: no clock, no I/O; constant work per token.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.stop_strings import Scanned, StopStrings
from gateway.token_pieces import TokenPieces


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What one round adds for the client.

    Args:
        text: New text; may be empty while a character or a possible stop string is incomplete.
        token_ids: New ids, in order.
        log_probs: One per id, or none at all.
        accepted_count: Of token_ids, how many were accepted from the draft.
        is_stopped: True: a stop string ended the stream with the last of token_ids.
        token_texts: What each of token_ids adds, with nothing held back for stop strings.
    """

    text: str
    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    accepted_count: int
    is_stopped: bool
    token_texts: tuple[str, ...]


class TextStream:
    """The text of one stream.

    Args:
        pieces: Bytes of each token.
        stop: Stop strings, none of them empty.
        min_tokens: One that is complete with an earlier token than this does not count.
    """

    def __init__(self, pieces: TokenPieces, stop: Sequence[str], min_tokens: int = 0) -> None:
        self._pieces = pieces
        self._min_tokens = min_tokens
        self._token_count = 0
        self._stop_strings = StopStrings(stop)
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._strippable_spaces = pieces.leading_spaces
        self._is_ended = False

    def add(
        self,
        token_ids: Sequence[int],
        log_probs: Sequence[float] = (),
        accepted_count: int = 0,
        is_last: bool = False,
    ) -> TextDelta:
        """Takes what one round committed.

        Args:
            token_ids: New ids, in order.
            log_probs: One per id, or empty.
            accepted_count: How many of token_ids, from the first on, came from the draft.
            is_last: True: the stream ends with this round, so nothing is held back any more.

        Returns:
            What the client gets of it.

        Raises:
            ValueError: The stream has ended already.
        """
        if self._is_ended:
            raise ValueError("the text has ended; nothing can be added")
        shown: list[str] = []
        added: list[str] = []
        is_stopped = False
        for token_id in token_ids:
            self._token_count += 1
            added.append(self._decode(self._pieces[token_id]))
            text, is_stopped = self._scan(added[-1])
            shown.append(text)
            if is_stopped:
                break
        count = len(added)
        if is_last and not is_stopped:
            rest = self._decode(b"", is_final=True)
            if added:
                added[-1] += rest
            text, is_stopped = self._scan(rest)
            shown += [text, self._stop_strings.flush()]
        self._is_ended = is_last or is_stopped
        return TextDelta(
            text="".join(shown),
            token_ids=tuple(token_ids[:count]),
            log_probs=tuple(log_probs[:count]),
            accepted_count=min(accepted_count, count),
            is_stopped=is_stopped,
            token_texts=tuple(added),
        )

    def _scan(self, text: str) -> Scanned:
        return self._stop_strings.scan(text, self._token_count >= self._min_tokens)

    def _decode(self, piece: bytes, is_final: bool = False) -> str:
        text = self._characters.decode(piece, is_final)
        if self._strippable_spaces and text:
            kept = text.lstrip(" ")
            stripped = min(len(text) - len(kept), self._strippable_spaces)
            self._strippable_spaces = 0 if kept else self._strippable_spaces - stripped
            return text[stripped:]
        return text
