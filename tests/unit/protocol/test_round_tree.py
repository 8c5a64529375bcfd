import pytest

from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import InvalidTree, TokenTree
from outrider.v1 import decoding_pb2

TREE = RoundTree(TokenTree((1, 2, 3, 4), (-1, 0, 1, 0)), (1, 2))


def test_it_comes_back_as_it_was():
    proto = decoding_pb2.RoundTree.FromString(TREE.to_proto().SerializeToString())
    assert RoundTree.from_proto(proto) == TREE
    assert TREE.accepted_token_ids == [2, 3]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"accepted_indices": [3, 2]}, "no child"),
        ({"accepted_indices": [9]}, "no child"),
        ({"parents": [-1, 0, 1]}, "one per node"),
        ({"parents": [0, 0, 1, 0]}, "must be -1"),
        ({"token_ids": [], "parents": []}, "at least its root"),
    ],
)
def test_what_is_no_tree_is_refused(change, rule):
    proto = TREE.to_proto()
    for name, values in change.items():
        proto.ClearField(name)
        getattr(proto, name).extend(values)
    with pytest.raises(InvalidTree, match=rule):
        RoundTree.from_proto(proto)
