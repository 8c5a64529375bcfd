"""What other sessions of a pass mean for a tree's size."""

from draft_service.company import ALONE, RIGHT_SHARE, Company, seen_in
from draft_service.tree_size import best_node_count
from outrider.protocol.messages import CostTable, Verdict


def verdict(nodes: int, trees: int, prefill: int = 0) -> Verdict:
    return Verdict(
        bytes(16), 0, 1, (), 7, batch_rows=nodes + prefill, batch_trees=trees, batch_nodes=nodes
    )


def test_a_lone_tree_has_no_company():
    assert seen_in(verdict(5, 1), 5) == ALONE
    assert seen_in(verdict(0, 0), 5) == ALONE, "a worker that does not say"


def test_others_count_by_their_trees_and_nodes():
    assert seen_in(verdict(16, 4), 6) == Company(rows=10, tokens=3 + 7 * RIGHT_SHARE)


def test_prompts_are_no_company_but_are_told():
    assert seen_in(verdict(1, 1, prefill=256), 1) == Company(has_prefill=True)
    assert seen_in(verdict(16, 4, prefill=1), 6) == seen_in(verdict(16, 4), 6)._replace(
        has_prefill=True
    )


def test_a_row_is_worth_more_beside_rows_that_commit_less():
    table = CostTable((1, 16, 32), (1000, 2500, 4100))
    sizes = [
        best_node_count([0.6, 0.5, 0.4, 0.3], table, Company(rows=15, tokens=tokens))
        for tokens in (15.0, 12.0, 9.0, 6.0)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
