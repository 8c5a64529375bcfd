"""Rounds told by the real workers: their trees are those that were decided."""

import pytest

from tests.e2e.streams import Client, ids_of, ids_request, text_of
from tests.e2e.tiny_model import TinyModel


@pytest.mark.parametrize("method", ["ngram", "none"])
def test_trees_explain_every_token_and_change_none(
    client: Client, tiny_model: TinyModel, method: str
) -> None:
    cycle = tiny_model.cycle()
    request = ids_request(cycle.prompt_ids, 24, method, ignore_eos=True)
    unasked = client.generate(request)
    assert not any(message.HasField("round_report") for message in unasked)
    request.report_rounds = True
    told = client.generate(request)
    assert ids_of(told) == ids_of(unasked) == cycle.next_ids

    root = cycle.prompt_ids[-1]
    drafted = 0
    for message in told:
        report, tree = message.round_report, message.round_report.tree
        accepted = [tree.token_ids[node] for node in tree.accepted_indices]
        assert tree.token_ids[0] == root
        assert accepted == list(message.token_ids)[: message.accepted_count]
        assert [tiny_model.text([i]) for i in tree.token_ids] == list(report.node_texts)
        root = message.token_ids[-1]
        drafted += len(tree.token_ids) - 1
    assert drafted == told[-1].speculation_report.drafted
    assert (drafted > 0) == (method == "ngram")
    own = "".join(text for message in told for text in message.round_report.token_texts)
    assert own == text_of(told)
