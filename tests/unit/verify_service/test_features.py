from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.features import MAX_TENSOR_BYTES, TensorType
from outrider.protocol.messages import OpenSession
from outrider.protocol.session import RoundLedger
from verify_service.features import feature_messages, unsent_rows
from verify_service.kv_blocks import BlockTable
from verify_service.prefix_names import PrefixNames
from verify_service.sessions import VerifySession
from verify_service.step import FeatureBlock, Segment


def session(next_feature_row: int) -> VerifySession:
    opened = OpenSession(b"s" * 16, 4, (1,) * 20, 20, Sampling(), DecodeLimits(9))
    return VerifySession(
        b"peer", opened, BlockTable(4), RoundLedger(4), 1, [1] * 20, PrefixNames(4),
        feature_layers=(1,), wants_features=True, next_feature_row=next_feature_row,
    )  # fmt: skip


def segment(num_rows: int, cached_rows: int, tree_start: int | None) -> Segment:
    return Segment(
        (1,) * num_rows, (0,) * num_rows, cached_rows, range(99), tree_start, Sampling(), (1,)
    )


def test_all_rows_of_a_prefill_chunk_are_committed():
    assert unsent_rows(session(8), segment(4, 8, None)) == [0, 1, 2, 3]


def test_rows_that_were_sent_or_not_wanted_are_skipped():
    assert unsent_rows(session(10), segment(4, 8, None)) == [2, 3]
    assert unsent_rows(session(12), segment(4, 8, None)) == []
    assert unsent_rows(session(19), segment(4, 8, None)) == []


def test_of_a_tree_the_root_and_the_accepted_path_are_committed():
    assert unsent_rows(session(8), segment(7, 8, 0), [2, 5]) == [0, 2, 5]
    assert unsent_rows(session(8), segment(7, 8, 0)) == [0]
    assert unsent_rows(session(8), segment(7, 8, 3), [1, 3]) == [0, 1, 2, 3, 4, 6]
    assert unsent_rows(session(11), segment(7, 8, 3), [1, 3]) == [3, 4, 6]
    assert unsent_rows(session(12), segment(7, 8, 3), [1, 3]) == [4, 6]


def test_a_session_that_wants_none_is_sent_none():
    one = session(0)
    one.wants_features = False
    assert unsent_rows(one, segment(4, 0, None)) == []


def test_rows_that_were_begun_with_are_due_before_those_of_the_segment():
    assert unsent_rows(session(0), segment(4, 3, None)) == [-3, -2, -1, 0, 1, 2, 3]
    assert unsent_rows(session(6), segment(7, 8, 0), [2]) == [-2, -1, 0, 2]


def test_a_block_is_cut_into_frames_and_its_rows_count_as_sent():
    row_size = 300_000  # three rows of 1.2 MB fit a frame
    one = session(8)
    data = b"".join(bytes([row]) * row_size * 4 for row in range(7))
    messages = feature_messages(one, FeatureBlock(data, row_size, TensorType.FLOAT32))
    assert [(rows.first_row, rows.row_count) for rows in messages] == [(8, 3), (11, 3), (14, 1)]
    assert b"".join(rows.data for rows in messages) == data
    assert {(rows.session_id, rows.epoch) for rows in messages} == {(b"s" * 16, 4)}
    assert max(len(rows.data) for rows in messages) <= MAX_TENSOR_BYTES
    assert one.next_feature_row == 15
