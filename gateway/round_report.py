"""One round as the public API tells it, token by token, and the same as JSON. Plain values."""

from collections.abc import Sequence
from typing import Any

from gateway.token_pieces import TokenPieces
from outrider.protocol.round_tree import RoundTree
from outrider.v1 import generation_pb2


def round_report(
    tree: RoundTree, token_texts: Sequence[str], pieces: TokenPieces
) -> generation_pb2.RoundReport:
    """What a message says of its round.

    Args:
        tree: The round's candidates.
        token_texts: What each of the message's tokens adds to the text.
        pieces: Bytes of each token.
    """
    ids = tree.tree.token_ids
    return generation_pb2.RoundReport(
        tree=tree.to_proto(),
        node_texts=[pieces[token_id].decode("utf-8", "replace") for token_id in ids],
        token_texts=token_texts,
    )


def round_report_json(report: generation_pb2.RoundReport) -> dict[str, Any]:
    """The same fields."""
    return {
        "tree": {
            "token_ids": list(report.tree.token_ids),
            "parents": list(report.tree.parents),
            "accepted_indices": list(report.tree.accepted_indices),
        },
        "node_texts": list(report.node_texts),
        "token_texts": list(report.token_texts),
    }
