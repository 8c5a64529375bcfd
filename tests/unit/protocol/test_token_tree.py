import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.protocol.token_tree import InvalidTree, TokenTree, ancestor_mask


@st.composite
def trees(draw, max_nodes=20):
    """Any legal tree: distinct tokens make siblings distinct."""
    count = draw(st.integers(1, max_nodes))
    parents = [-1] + [draw(st.integers(0, node - 1)) for node in range(1, count)]
    return TokenTree(tuple(range(100, 100 + count)), tuple(parents))


@pytest.mark.parametrize(
    ("token_ids", "parents", "rule"),
    [
        ((), (), "at least its root"),
        ((1, 2), (-1,), "one per node"),
        ((1, 2), (0, 0), "parents[0] must be -1"),
        ((1, 2), (-1, 1), "parents[1] must be from 0 to 0"),
        ((1, 2), (-1, 2), "parents[1]"),
        ((1, 2), (-1, -1), "parents[1]"),
        ((1, 2), (-1, -2), "parents[1]"),
        ((1, 2, 2), (-1, 0, 0), "repeats the token of a sibling"),
    ],
)
def test_a_broken_rule_is_named(token_ids, parents, rule):
    with pytest.raises(InvalidTree, match=rule.replace("[", r"\[").replace("]", r"\]")):
        TokenTree(token_ids, parents)


def test_cousins_may_share_a_token():
    tree = TokenTree((1, 2, 3, 9, 9), (-1, 0, 0, 1, 2))
    assert tree.children() == [{2: 1, 3: 2}, {9: 3}, {9: 4}, {}, {}]


@given(trees())
def test_mask_depth_and_path_agree(tree):
    mask = ancestor_mask(tree.parents)
    for node, depth in enumerate(tree.depths()):
        path = tree.path(node)
        assert len(path) == depth + 1
        assert list(np.flatnonzero(mask[node])) == path


@given(trees(), st.integers(0, 6))
def test_truncated_keeps_exactly_the_shallow_nodes(tree, max_depth):
    smaller, kept = tree.truncated(max_depth)
    assert kept == [node for node, depth in enumerate(tree.depths()) if depth <= max_depth]
    assert [tree.token_ids[node] for node in kept] == list(smaller.token_ids)
    for node, index in enumerate(kept):
        assert [kept[one] for one in smaller.path(node)] == tree.path(index)


def test_tokens_along_a_path_and_nothing_else():
    tree = TokenTree((1, 2, 3, 4), (-1, 0, 1, 0))
    assert tree.tokens_along(()) == []
    assert tree.tokens_along((1, 2)) == [2, 3]
    for nodes in ((0,), (2,), (1, 3), (1, 2, 4), (-1,)):
        with pytest.raises(InvalidTree, match="is no child of node"):
            tree.tokens_along(nodes)
