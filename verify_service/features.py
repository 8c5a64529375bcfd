"""Which features of a step are sent: those of committed rows, in order, each row once.

A row that is prefilled again after a preemption was sent before and is skipped. Knows no tensors: a
row is a number here, and features are bytes.
"""

from collections.abc import Sequence

from outrider.protocol.features import MAX_TENSOR_BYTES
from outrider.protocol.messages import FeatureRows
from verify_service.sessions import VerifySession
from verify_service.step import FeatureBlock, Segment


def unsent_rows(session: VerifySession, segment: Segment, path: Sequence[int] = ()) -> list[int]:
    """Rows of a segment that are committed and whose features are wanted and not sent yet.

    Args:
        session: Whose segment it is.
        segment: What was run.
        path: Accepted nodes of the segment's tree without the root, which is always committed.

    Returns:
        Rows counted from the segment's first, in the order of their positions; the first is at
        position `session.next_feature_row`. Rows that the session shares with others, and has not
        run itself, are negative.
    """
    if not session.wants_features:
        return []
    prefill_rows = len(segment.token_ids) if segment.tree_start is None else segment.tree_start
    committed = list(range(prefill_rows))
    if segment.tree_start is not None:
        committed += [segment.tree_start + node for node in (0, *path)]
    due = session.next_feature_row - segment.cached_rows
    return committed[due:] if due >= 0 else [*range(due, 0), *committed]


def feature_messages(session: VerifySession, block: FeatureBlock) -> list[FeatureRows]:
    """The messages that carry a block, each small enough for a frame; its rows count as sent."""
    row_bytes = block.row_size * block.tensor_type.size
    frame_bytes = MAX_TENSOR_BYTES // row_bytes * row_bytes
    messages: list[FeatureRows] = []
    for start in range(0, len(block.data), frame_bytes):
        data = block.data[start : start + frame_bytes]
        message = FeatureRows(
            session_id=session.opened.session_id,
            epoch=session.opened.epoch,
            first_row=session.next_feature_row,
            row_count=len(data) // row_bytes,
            row_size=block.row_size,
            tensor_type=block.tensor_type,
            data=data,
        )
        session.next_feature_row = message.stop_row
        messages.append(message)
    return messages
