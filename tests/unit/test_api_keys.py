"""Keys: made, known by their hash, and asked for."""

import pytest

from outrider.api_keys import NOBODY, Access, ApiKey, Permission, digest_of, make_key
from outrider.protocol.errors import ErrorCode, Forbidden, Unauthenticated

ALICE, BOB = make_key(), make_key()
KEYS = [
    ApiKey("alice", digest_of(ALICE)),
    ApiKey("bob-2", digest_of(BOB), frozenset({Permission.METRICS})),
]


def name_of(access: Access, authorization: str) -> str:
    return access.admit(authorization, Permission.METRICS).name


def test_keys_are_random() -> None:
    assert ALICE != BOB
    assert len(ALICE) > 40


def test_whoever_has_a_key_is_known_by_its_name() -> None:
    access = Access(KEYS)
    assert name_of(access, f"Bearer {ALICE}") == "alice"
    assert name_of(access, f"bearer   {BOB} ") == "bob-2"


@pytest.mark.parametrize(
    "authorization",
    ["", ALICE, f"Basic {ALICE}", "Bearer ", f"Bearer {ALICE}x", "Bearer é"],
    ids=range(6),
)
def test_all_others_are_not_let_in(authorization: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        name_of(Access(KEYS), authorization)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert ALICE not in caught.value.message


def test_a_key_is_for_what_it_may_be_used_for() -> None:
    with pytest.raises(Forbidden, match="bob-2 may not be used for generate"):
        Access(KEYS).admit(f"Bearer {BOB}", Permission.GENERATE)


def test_without_keys_everybody_is_nobody() -> None:
    for authorization in ("", "Bearer x"):
        assert Access().admit(authorization, Permission.GENERATE) is NOBODY


def test_keys_can_be_replaced_while_serving() -> None:
    access = Access(KEYS[:1])
    access.replace(KEYS[1:])
    assert name_of(access, f"Bearer {BOB}") == "bob-2"
    with pytest.raises(Unauthenticated):
        name_of(access, f"Bearer {ALICE}")
