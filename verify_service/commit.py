"""Commit: decide what is kept *before* anything is stored or published.

End of sequence, stop tokens, the token limit and the context limit are weighed here once, so that
KV, usage, log-probabilities, ids and finish reason cannot disagree.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from outrider.protocol.decoding import FinishReason


class CommitPlan(NamedTuple):
    """How many of a round's tokens are kept, and whether the session ends with the last of them."""

    kept_count: int
    finish_reason: FinishReason | None


def plan_commit(
    token_ids: Sequence[int], tokens_left: int, stop_token_ids: Collection[int]
) -> CommitPlan:
    """Finds the earliest terminator of one round.

    Args:
        token_ids: Accepted tokens and the bonus token, at least one.
        tokens_left: Tokens the session may still commit, at least 1.
        stop_token_ids: Ids that end the session, kept as its last token.

    Returns:
        A plan that keeps at least one token. A stop token that is also the last one allowed ends
        the session with STOP.
    """
    for place, token_id in enumerate(token_ids[:tokens_left]):
        if token_id in stop_token_ids:
            return CommitPlan(place + 1, FinishReason.STOP)
    if len(token_ids) >= tokens_left:
        return CommitPlan(tokens_left, FinishReason.LENGTH)
    return CommitPlan(len(token_ids), None)
