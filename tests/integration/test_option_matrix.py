"""All sampling options with one another, in pairs: the ids are those of plain decoding alone.

Rows of a covering array: every pair of values of two options stands in at least one row. Each row
is decoded alone and plainly, then with speculation that is on, or changes from round to round, and
beside other rows.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes.option_rows import NEW_TOKENS, ROWS, conversation, open_row


def decode(rows: Sequence[int], method: str) -> list[tuple[list[int], list[Any]]]:
    """Ids and the likeliest tokens of some rows, decoded together."""
    talk = conversation(method)
    ids = [open_row(talk, number, method) for number in rows]
    talk.run()
    assert not talk.errors
    talk.verify.audit()
    assert talk.verify.blocks.in_use == 0
    tops = [
        [top.token_ids for done in talk.rounds[one] for top in done.top_log_probs] for one in ids
    ]
    return list(zip(map(talk.tokens, ids), tops, strict=True))


@pytest.fixture(scope="module")
def expected() -> list[tuple[list[int], list[Any]]]:
    return [decode([number], "none")[0] for number in range(len(ROWS))]


def test_the_rows_cover_all_pairs_and_differ(expected):
    assert 8 <= len(ROWS) <= 24
    assert len({tuple(ids) for ids, _ in expected}) > len(ROWS) // 2
    assert any(len(ids) < NEW_TOKENS for ids, _ in expected)
    for row, (ids, tops) in zip(ROWS, expected, strict=True):
        assert len(tops) == (len(ids) if row["top_log_probs"] else 0)


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("method", ["none", "ngram", "changing"])
def test_ids_do_not_depend_on_speculation_or_company(expected, method, together):
    for start in range(0, len(ROWS), together):
        rows = range(start, min(start + together, len(ROWS)))
        assert decode(rows, method) == [expected[number] for number in rows], ROWS[start]
