from hypothesis import given
from hypothesis import strategies as st

from outrider.protocol.token_tree import TokenTree
from verify_service.acceptance import walk

TREE = TokenTree((1, 2, 3, 4, 5), (-1, 0, 0, 1, 2))


def test_follows_the_target_and_ends_where_no_child_agrees():
    assert walk(TREE, {0: 3, 2: 5, 4: 9}.__getitem__) == ([2, 4], 9)
    assert walk(TREE, {0: 3, 2: 4}.__getitem__) == ([2], 4)
    assert walk(TREE, {0: 7}.__getitem__) == ([], 7)


def test_below_the_threshold_a_likely_child_is_accepted_instead():
    says = {0: 7, 1: 9, 2: 8, 4: 8}.__getitem__
    asked = []

    def likely(node, token_ids):
        asked.append((node, sorted(token_ids)))
        return {0: 3, 2: None}[node]

    assert walk(TREE, says, likely) == ([2], 8)
    assert asked == [(0, [2, 3]), (2, [5])]
    agreed = {0: 2, 1: 4, 3: 6}.__getitem__
    asked.clear()
    assert walk(TREE, agreed, likely) == ([1, 3], 6)  # a leaf has no child to ask for
    assert not asked


def test_asks_only_at_nodes_it_reaches():
    """The table has no entry for the others: asking there would be a KeyError."""
    assert walk(TREE, {0: 2, 1: 5}.__getitem__) == ([1], 5)


@given(st.data())
def test_the_committed_tokens_are_the_targets_own_chain(data):
    """Whatever the tree, the tokens are what the target says along its own path."""
    count = data.draw(st.integers(1, 15))
    parents = [-1] + [data.draw(st.integers(0, node - 1)) for node in range(1, count)]
    tokens, taken = [0], set()
    for node in range(1, count):
        free = [t for t in range(count + 1) if (parents[node], t) not in taken]
        tokens.append(data.draw(st.sampled_from(free)))
        taken.add((parents[node], tokens[-1]))
    tree = TokenTree(tuple(tokens), tuple(parents))
    says = [data.draw(st.integers(0, 4)) for _ in range(count)]
    accepted, bonus = walk(tree, says.__getitem__)
    path = [0, *accepted]
    for node, following in zip(path, accepted, strict=False):
        assert tree.parents[following] == node
        assert tree.token_ids[following] == says[node]
    assert bonus == says[path[-1]]
    assert bonus not in tree.children()[path[-1]]
