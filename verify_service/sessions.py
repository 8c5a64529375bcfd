"""One session as the verify worker knows it: its tokens, its rows in the cache, its ledger."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.protocol.logit_rules import TokenHistory
from outrider.protocol.messages import FeatureRows, OpenSession
from outrider.protocol.session import RoundLedger, tokens_left
from outrider.protocol.token_tree import TokenTree
from verify_service.kv_blocks import BlockTable
from verify_service.prefix_names import PrefixNames
from verify_service.scheduler import Demand
from verify_service.step import Constraints, Follower, PendingFollower


@dataclass(slots=True, eq=False)
class VerifySession:
    """State of one session.

    Args:
        peer: The draft worker that owns it.
        opened: The message that placed it.
        table: Its blocks.
        age: Order of arrival; preemption takes the highest.
        token_ids: Prompt and committed tokens; the last is the root, whose row is not cached.
        cached_rows: Rows in the cache.
        is_fresh: True: it has no place in the pool, or no more than rows of others.
        waiting_since: When the pending tree arrived, seconds.
        tree: The pending tree without nodes beyond the session's last token.
        kept_nodes: For each node of `tree` its index in the tree that was sent.
        names: Of its blocks.
        feature_layers: Layers of the features that are kept of its rows, low to high: those that
            its peer's sessions may want; whoever shares the rows may want them too.
        wants_features: True: they are sent.
        next_feature_row: First row whose features have not been sent and are wanted.
        last_features: What was sent with the last verdict, in case that is asked for again.
        constraints: On its tokens, beyond temperature and filters; None: there are none.
        grammar: Is still being read; nothing may be drawn before.
    """

    peer: bytes
    opened: OpenSession
    table: BlockTable
    ledger: RoundLedger
    age: int
    token_ids: list[int]
    names: PrefixNames
    cached_rows: int = 0
    is_fresh: bool = True
    waiting_since: float = 0.0
    tree: TokenTree | None = None
    kept_nodes: list[int] = field(default_factory=list)
    feature_layers: tuple[int, ...] = ()
    wants_features: bool = False
    next_feature_row: int = 0
    last_features: list[FeatureRows] = field(default_factory=list)
    constraints: Constraints | None = None
    grammar: PendingFollower | None = None

    @property
    def may_run(self) -> bool:
        """True where it has a tree and everything that its tokens depend on."""
        return self.tree is not None and self.grammar is None

    def extend(self, token_ids: Sequence[int]) -> None:
        """Takes tokens that were committed."""
        self.token_ids.extend(token_ids)
        if self.constraints is not None:
            self.constraints.extend(token_ids)

    def ending_ids(self, eos_token_ids: Sequence[int]) -> frozenset[int]:
        """Ids that end the session; a grammar that is complete always ends it."""
        own = self.opened.limits.ending_ids(eos_token_ids)
        return own if self.opened.sampling.grammar is None else own.union(eos_token_ids)

    def tokens_left(self, context_limit: int) -> int:
        """Tokens the session may still commit."""
        opened = self.opened
        return tokens_left(len(self.token_ids), opened.prompt_length, opened.limits, context_limit)

    @property
    def missing_rows(self) -> int:
        """Committed rows before the root that are not in the cache."""
        return len(self.token_ids) - 1 - self.cached_rows

    def demand(self) -> Demand:
        """What could run now."""
        return Demand(self.missing_rows, len(self.tree) if self.tree else 0)


def constraints_of(
    opened: OpenSession, eos_token_ids: Sequence[int], follower: Follower | None
) -> Constraints | None:
    """What may come in a session that is placed; None where anything may.

    Args:
        opened: The message that places it, with what was committed before.
        eos_token_ids: The target's end-of-sequence ids.
        follower: Of its grammar, behind what was committed; None where it has none.
    """
    rules, limits = opened.sampling.rules, opened.limits
    if rules.is_neutral and not limits.min_new_tokens and follower is None:
        return None
    history = TokenHistory(opened.token_ids, opened.prompt_length) if rules.counts_tokens else None
    barred = limits.ending_ids(eos_token_ids) if limits.min_new_tokens else frozenset()
    barred_before = opened.prompt_length + limits.min_new_tokens
    return Constraints(rules, history, barred, barred_before, follower)
