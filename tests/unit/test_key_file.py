"""The file of keys: read, written, and refused by line without a word of what stands there."""

import pytest

from outrider.api_keys import Allowance, ApiKey, Permission, digest_of, make_key
from outrider.key_file import BadApiKeys, key_line, read_api_keys

ALICE, BOB = make_key(), make_key()
DIGEST = digest_of(ALICE).hex()
FILE = f"# who may ask\n\n{key_line('alice', ALICE)}\n  {key_line('bob-2', BOB)}\n"


def test_only_the_hash_of_a_key_is_written() -> None:
    assert ALICE not in FILE
    assert DIGEST in FILE


def test_a_file_is_read() -> None:
    assert read_api_keys(FILE) == [
        ApiKey("alice", digest_of(ALICE)),
        ApiKey("bob-2", digest_of(BOB)),
    ]


@pytest.mark.parametrize(
    ("words", "permissions", "allowance"),
    [
        ([], frozenset(Permission), Allowance()),
        (["may=metrics"], frozenset({Permission.METRICS}), Allowance()),
        (
            [
                *("tokens_total=5000", "may=models,generate", "requests_per_minute=60"),
                *("tokens_per_minute=0", "tokens_per_day=1000"),
            ],
            frozenset({Permission.MODELS, Permission.GENERATE}),
            Allowance(60, 0, 1000, 5000),
        ),
    ],
    ids=("all", "metrics", "both"),
)
def test_what_a_key_may_do_is_written_and_read(
    words: list[str], permissions: frozenset[Permission], allowance: Allowance
) -> None:
    line = key_line("alice", ALICE, words)
    assert line == " ".join([f"alice:{DIGEST}", *words])
    assert read_api_keys(line) == [ApiKey("alice", digest_of(ALICE), permissions, allowance)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no key"),
        ("# nobody\n", "no key"),
        (f"alice {DIGEST}", "line 1"),
        (f"\na/b:{DIGEST}", "line 2"),
        (f"alice:{ALICE}", "line 1"),
        (f"alice:{DIGEST[:-1]}", "line 1"),
        (f"{key_line('a', ALICE)}\n{key_line('a', BOB)}", "line 2: .* twice"),
        (f"{key_line('a', ALICE)}\n{key_line('b', ALICE)}", "line 2: .* twice"),
        (f"a:{DIGEST} {ALICE}", "line 1: .* word=value"),
        (f"a:{DIGEST} tokens_per_dya=1", "line 1: unknown word .*mean tokens_per_day"),
        (f"a:{DIGEST} tokens_per_day=0", "line 1: tokens_per_day: .* from 1"),
        (f"a:{DIGEST} tokens_per_day=-1", "line 1: tokens_per_day"),
        (f"a:{DIGEST} tokens_total=1e9", "line 1: tokens_total"),
        (f"a:{DIGEST} requests_per_minute=", "line 1: requests_per_minute"),
        (f"a:{DIGEST} requests_per_minute=99999999999999999", "line 1: requests_per_minute"),
        (f"a:{DIGEST} may=", "line 1: may: must be some of generate, models, metrics"),
        (f"a:{DIGEST} may=generate,fly", "line 1: may"),
        (f"a:{DIGEST} may=models may=generate", "line 1: may is there twice"),
    ],
    ids=range(18),
)
def test_other_files_are_refused_by_line(text: str, words: str) -> None:
    with pytest.raises(BadApiKeys, match=words) as caught:
        read_api_keys(text)
    assert ALICE not in str(caught.value)
    assert DIGEST[:16] not in str(caught.value)


def test_what_no_file_may_hold_makes_no_line() -> None:
    for name in ("", "a:b", "é", "x" * 65):
        with pytest.raises(BadApiKeys, match="name"):
            key_line(name, ALICE)
    with pytest.raises(BadApiKeys, match="may"):
        key_line("alice", ALICE, ["may=everything"])
