"""Keys: made, kept by their hash, and asked for."""

import pytest

from outrider.api_keys import (
    Access,
    ApiKey,
    BadApiKeys,
    digest_of,
    key_line,
    make_key,
    read_api_keys,
)
from outrider.protocol.errors import ErrorCode, Unauthenticated

ALICE, BOB = make_key(), make_key()
FILE = f"# who may ask\n\n{key_line('alice', ALICE)}\n  {key_line('bob-2', BOB)}\n"


def test_keys_are_random_and_only_their_hash_is_written() -> None:
    assert ALICE != BOB
    assert len(ALICE) > 40
    assert ALICE not in FILE
    assert digest_of(ALICE).hex() in FILE


def test_a_file_is_read() -> None:
    assert read_api_keys(FILE) == [
        ApiKey("alice", digest_of(ALICE)),
        ApiKey("bob-2", digest_of(BOB)),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no key"),
        ("# nobody\n", "no key"),
        (f"alice {digest_of(ALICE).hex()}", "line 1"),
        (f"\na/b:{digest_of(ALICE).hex()}", "line 2"),
        (f"alice:{ALICE}", "line 1"),
        (f"alice:{digest_of(ALICE).hex()[:-1]}", "line 1"),
        (f"{key_line('a', ALICE)}\n{key_line('a', BOB)}", "line 2: .* twice"),
        (f"{key_line('a', ALICE)}\n{key_line('b', ALICE)}", "line 2: .* twice"),
    ],
    ids=range(8),
)
def test_other_files_are_refused_by_line(text: str, words: str) -> None:
    with pytest.raises(BadApiKeys, match=words):
        read_api_keys(text)


def test_a_bad_name_makes_no_line() -> None:
    for name in ("", "a:b", "é", "x" * 65):
        with pytest.raises(BadApiKeys, match="name"):
            key_line(name, ALICE)


def test_whoever_has_a_key_is_known_by_its_name() -> None:
    access = Access(read_api_keys(FILE))
    assert access.tenant_of(f"Bearer {ALICE}") == "alice"
    assert access.tenant_of(f"bearer   {BOB} ") == "bob-2"


@pytest.mark.parametrize(
    "authorization",
    ["", ALICE, f"Basic {ALICE}", "Bearer ", f"Bearer {ALICE}x", "Bearer é"],
    ids=range(6),
)
def test_all_others_are_not_let_in(authorization: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        Access(read_api_keys(FILE)).tenant_of(authorization)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert ALICE not in caught.value.message


def test_without_keys_everybody_is_nobody() -> None:
    assert Access().tenant_of("") == Access().tenant_of("Bearer x") == ""
