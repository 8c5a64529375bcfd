from hypothesis import given
from hypothesis import strategies as st

from draft_service.candidate_tree import CandidateTree
from outrider.protocol.token_tree import TokenTree

SURE, LIKELY, EVEN, RARE = 1.0, 0.8, 0.5, 0.1


@st.composite
def trees(draw) -> CandidateTree[None]:
    """Any tree; probabilities of 1 make children as likely as their parents."""
    tree: CandidateTree[None] = CandidateTree(7, None)
    for node in range(1, draw(st.integers(1, 30))):
        parent = draw(st.integers(0, node - 1))
        prob = draw(st.sampled_from([SURE, LIKELY, EVEN, RARE, 0.0]))
        tree.add(parent, len(tree.children(parent)), prob, None)
    return tree


@given(trees(), st.integers(1, 40))
def test_the_best_nodes_are_a_tree_whatever_their_number(tree, count):
    """The property that reranking rests on: parents are kept with their children."""
    kept = tree.best(range(len(tree.nodes)), count)
    small = tree.token_tree(kept)  # refuses anything that is no tree
    assert len(small) == min(count, len(tree.nodes))
    for index, node in enumerate(kept[1:], start=1):
        parent = kept[small.parents[index]]
        assert tree.nodes[node].parent == parent
        assert small.token_ids[index] == tree.nodes[node].token_id
    left_out = set(range(len(tree.nodes))) - set(kept)
    lowest = min(tree.nodes[node].survival for node in kept)
    assert all(tree.nodes[node].survival <= lowest for node in left_out)


@given(trees())
def test_depth_rank_survival_and_levels_follow_from_the_parents(tree):
    for node, candidate in enumerate(tree.nodes[1:], start=1):
        above = tree.nodes[candidate.parent]
        assert candidate.depth == above.depth + 1 == len(tree.path(node))
        assert candidate.survival <= above.survival
        assert tree.children(candidate.parent)[candidate.rank] == node
        assert node in tree.level(candidate.depth)
    assert sum(len(tree.level(depth)) for depth in range(31)) == len(tree.nodes)


def test_equal_nodes_come_in_the_order_in_which_they_were_found():
    tree: CandidateTree[None] = CandidateTree(7, None)
    for token in (5, 6, 7):
        tree.add(0, token, EVEN, None)
    below = tree.add(1, 9, SURE, None)
    assert tree.best([below, 3, 2, 1], 3) == [1, 2, 3]
    assert tree.token_tree([0, 1, below]) == TokenTree.chain([7, 5, 9])
