"""Requests that cover all pairs of sampling options, for a tiny network of letters."""

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from outrider.protocol.decoding import Sampling
from outrider.protocol.grammar import Grammar, GrammarKind
from outrider.protocol.logit_rules import LogitRules
from tests.fakes import letters
from tests.fakes.conversation import Conversation, identity
from tests.fakes.random_drafter import RandomDrafter
from tests.unit.modeling.tiny_models import VOCAB, target_model
from verify_service.executor import TorchExecutor

NEW_TOKENS = 16

OPTIONS: dict[str, tuple[Any, ...]] = {
    "temperature": (0.0, 0.7, 1.3),
    "top_p": (1.0, 0.8),
    "top_k": (0, 12),
    "min_p": (0.0, 0.05),
    "repetition_penalty": (1.0, 1.3),
    "presence_penalty": (0.0, 0.9),
    "frequency_penalty": (0.0, -0.4),
    "logit_bias": ((), ((9, 2.0), (40, -50.0))),
    "allowed_token_ids": ((), tuple(range(5, 55))),
    "banned_token_ids": ((), (11, 12, 13)),
    "min_new_tokens": (0, 6),
    "stop_token_ids": ((), (20, 21)),
    "ignore_eos": (False, True),
    "top_log_probs": (0, 3),
    "grammar": (None, Grammar(GrammarKind.REGEX, "[a-z0-9 ]+")),
}
RULES = (
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "allowed_token_ids",
    "banned_token_ids",
)
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "grammar")

Row = dict[str, Any]


def covering_rows(options: dict[str, tuple[Any, ...]], seed: int) -> list[Row]:
    """Greedy: of some random rows the one that covers most pairs that are left."""
    draws = random.Random(seed)
    names = list(options)
    left = {
        (a, i, b, j)
        for a, b in combinations(names, 2)
        for i in range(len(options[a]))
        for j in range(len(options[b]))
    }
    rows = []
    while left:
        tries = [{name: draws.randrange(len(options[name])) for name in names} for _ in range(60)]
        best = max(tries, key=lambda row: len(_covered(row, names) & left))
        left -= _covered(best, names)
        rows.append({name: options[name][place] for name, place in best.items()})
    return rows


def _covered(row: dict[str, int], names: Sequence[str]) -> set[tuple[str, int, str, int]]:
    return {(a, row[a], b, row[b]) for a, b in combinations(names, 2)}


ROWS = covering_rows(OPTIONS, seed=1)


def prompt_of(number: int) -> list[int]:
    """The prompt of a request; it ends in a repetition."""
    return [30 + (7 * i * (number + 1)) % 25 for i in range(9)] + [31, 32, 33] * 2


def conversation(method: str, **shape: Any) -> Conversation:
    """Both workers over a tiny network; "changing" drafts trees of any size, from round to round.

    Args:
        method: That requests will ask for.
        shape: Of the pool.
    """
    talk = Conversation(
        lambda prefix: [],
        ack=identity(vocab_size=VOCAB, max_nodes=16),
        drafters={"changing": RandomDrafter(5, VOCAB)} if method == "changing" else None,
        make_target=lambda slots: TorchExecutor(target_model("llama", slots=slots), slots),
        grammars=letters.ReadAtOnce(letters.letter_grammars()),
        **shape,
    )
    talk.greet()
    return talk


def open_row(talk: Conversation, number: int, method: str, new_tokens: int = NEW_TOKENS) -> bytes:
    """Starts request `number` with the options of one of the rows; same number, same text."""
    row = ROWS[number % len(ROWS)]
    rules = LogitRules(**{name: row[name] for name in RULES})
    sampling = Sampling(**{name: row[name] for name in SAMPLING}, seed=number, rules=rules)
    others = {name: row[name] for name in OPTIONS if name not in (*RULES, *SAMPLING)}
    return talk.open(
        f"s{number}",
        prompt_of(number),
        method=method,
        sampling=sampling,
        max_new_tokens=new_tokens,
        log_probs=True,
        **others,
    )
