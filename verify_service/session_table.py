"""The open sessions of a verify worker: placed, given trees, closed. All fields are checked."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from outrider.protocol import messages as m
from outrider.protocol.channel import PeerId
from outrider.protocol.decoding import check_some_token_may_come, check_token_ids
from outrider.protocol.errors import BadGrammar, InvalidField
from outrider.protocol.grammar import Grammar
from outrider.protocol.session import RoundLedger, Standing
from verify_service.counters import Counters
from verify_service.kv_blocks import KvBlocks
from verify_service.prefix_names import PrefixNames
from verify_service.sessions import VerifySession, constraints_of
from verify_service.step import PendingFollower


class GrammarSource(Protocol):
    """Reads the grammars of requests."""

    def begin(self, grammar: Grammar, token_ids: Sequence[int]) -> PendingFollower:
        """Begins to read one.

        Args:
            grammar: Of a session.
            token_ids: What was committed before, which it has to fit.
        """


class SessionTable:
    """Sessions by id; each belongs to the peer that opened its latest epoch.

    Args:
        target: What is served and the limits to keep.
        blocks: The KV pool's blocks; a forgotten session's blocks go back at once.
        counters: Told of stale messages.
        grammars: Reads the grammars of requests; None: they are refused.
    """

    def __init__(
        self,
        target: m.TargetDescription,
        blocks: KvBlocks,
        counters: Counters,
        grammars: GrammarSource | None,
    ) -> None:
        self._counters = counters
        self._grammars = grammars
        self._target = target
        self._blocks = blocks
        self._sessions: dict[bytes, VerifySession] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: bytes) -> bool:
        return session_id in self._sessions

    def __iter__(self) -> Iterator[VerifySession]:
        return iter(self._sessions.values())

    def open(
        self, peer: PeerId, message: m.OpenSession, feature_layers: tuple[int, ...] = ()
    ) -> m.Fault | None:
        """Places a session; an older placement of it is forgotten, a newer one wins.

        Args:
            peer: Who owns it.
            message: What was asked.
            feature_layers: Layers that the peer's sessions may want features of.

        Returns:
            A refusal, or None.
        """
        known = self._sessions.get(message.session_id)
        if known is not None and message.epoch <= known.ledger.epoch:
            self._counters.stale_messages += 1
            return None
        if known is not None:
            self.forget(known)
        try:
            self._check_open(message, feature_layers)
            grammar = self._begin_grammar(message)
        except InvalidField as error:
            return fault_of(message, m.FaultCode.INVALID_ARGUMENT, str(error))
        problem = self._lack_of_room(message)
        if problem:
            return fault_of(message, m.FaultCode.RESOURCE_EXHAUSTED, problem)
        self._arrivals += 1
        session = VerifySession(
            peer=peer,
            opened=message,
            table=self._blocks.new_table(),
            ledger=RoundLedger(message.epoch),
            age=self._arrivals,
            token_ids=list(message.token_ids),
            # Rows without the features that somebody may want are of no use to them.
            names=PrefixNames(
                self._blocks.block_size, repr(feature_layers).encode() + message.cache_salt
            ),
            feature_layers=feature_layers,
            wants_features=message.features_from is not None,
            next_feature_row=message.features_from or 0,
            constraints=constraints_of(message, self._target.eos_token_ids, None),
            grammar=grammar,
        )
        self._sessions[message.session_id] = session
        return self._settle(session)

    @property
    def is_reading(self) -> bool:
        """True where a grammar is being read."""
        return any(session.grammar is not None for session in self)

    def settle(self) -> list[tuple[PeerId, m.Fault]]:
        """Lets sessions run whose grammar has been read; those whose grammar is none are forgotten.

        Returns:
            What the owners of those are told.
        """
        faults = [(session.peer, self._settle(session)) for session in list(self)]
        return [(peer, fault) for peer, fault in faults if fault is not None]

    def propose(self, peer: PeerId, message: m.ProposeTree, now: float) -> list[m.ToDraft]:
        """Makes a tree the pending one.

        Returns:
            A refusal, or what a repeated tree was answered with before, or nothing.
        """
        session = self._sessions.get(message.session_id)
        if session is None or session.peer != peer:
            text = "the session is not known here; open it anew"
            return [fault_of(message, m.FaultCode.SESSION_GONE, text)]
        standing = session.ledger.standing(message)
        if standing is Standing.REPEATED and session.ledger.last_verdict is not None:
            return [*session.last_features, session.ledger.last_verdict]
        if standing is not Standing.NEW:
            self._counters.stale_messages += 1
            return []
        problem = self._tree_problem(session, message)
        if problem:
            return [fault_of(message, m.FaultCode.INVALID_TREE, problem)]
        session.ledger.accept(message)
        # A node at depth d yields the token d + 1 places behind the root: deeper ones are in vain.
        deepest = session.tokens_left(self._target.context_limit) - 1
        session.tree, session.kept_nodes = message.tree.truncated(deepest)
        session.waiting_since = now
        return []

    def close(self, peer: PeerId, message: m.CloseSession) -> None:
        """Forgets a session at its owner's word; anyone else's is counted as stale."""
        session = self._sessions.get(message.session_id)
        if session is None or session.peer != peer or message.epoch < session.ledger.epoch:
            self._counters.stale_messages += 1
        else:
            self.forget(session)

    def drop_peer(self, peer: PeerId) -> None:
        """Forgets all sessions of one peer."""
        for session in [s for s in self if s.peer == peer]:
            self.forget(session)

    def forget(self, session: VerifySession, *, is_sound: bool = True) -> None:
        """Frees a session's blocks.

        Args:
            session: Is gone afterwards.
            is_sound: False: its rows cannot be trusted, so nobody may begin with them.
        """
        self._blocks.release(session.table, forget_names=not is_sound)
        del self._sessions[session.opened.session_id]

    def _check_open(self, message: m.OpenSession, feature_layers: tuple[int, ...]) -> None:
        target, limits = self._target, message.limits
        check_token_ids("token_ids", message.token_ids, target.vocab_size)
        check_token_ids("limits.stop_token_ids", limits.stop_token_ids, target.vocab_size)
        for name, token_ids in message.sampling.rules.named_token_ids().items():
            check_token_ids(name, token_ids, target.vocab_size)
        check_some_token_may_come(message.sampling.rules, limits, target.eos_token_ids)
        if len(message.token_ids) >= target.context_limit:
            raise InvalidField(
                "token_ids",
                f"{len(message.token_ids)} tokens leave no room in a context of "
                f"{target.context_limit}",
            )
        emitted = len(message.token_ids) - message.prompt_length
        if emitted >= limits.max_new_tokens:
            raise InvalidField("limits.max_new_tokens", f"{emitted} tokens are committed already")
        if message.features_from is not None and not feature_layers:
            raise InvalidField("features_from", "the Hello of this peer named no feature layers")

    def _begin_grammar(self, message: m.OpenSession) -> PendingFollower | None:
        """Begins to read the session's grammar, if it has one.

        Raises:
            InvalidField: This target follows none.
        """
        grammar = message.sampling.grammar
        if grammar is None:
            return None
        if self._grammars is None:
            text = "this target has no tokenizer.json, so it follows no grammar"
            raise InvalidField(_field_of(grammar), text)
        return self._grammars.begin(grammar, message.token_ids[message.prompt_length :])

    def _settle(self, session: VerifySession) -> m.Fault | None:
        """Takes the session's grammar where it has been read; a refusal where it is none."""
        opened, grammar = session.opened, session.opened.sampling.grammar
        if session.grammar is None or grammar is None:
            return None
        try:
            follower = session.grammar.ready()
        except BadGrammar as error:
            self.forget(session)
            problem = InvalidField(_field_of(grammar), str(error))
            return fault_of(opened, m.FaultCode.INVALID_ARGUMENT, str(problem))
        if follower is not None:
            session.constraints = constraints_of(opened, self._target.eos_token_ids, follower)
            session.grammar = None
        return None

    def _lack_of_room(self, message: m.OpenSession) -> str:
        """Why the session could never run to its end, or ""."""
        last = min(
            self._target.context_limit, message.prompt_length + message.limits.max_new_tokens
        )
        needed = self._blocks.blocks_for(last + self._target.max_nodes)
        if needed <= self._blocks.block_count:
            return ""
        return (
            f"{last} tokens need {needed} KV blocks and the pool has {self._blocks.block_count}; "
            "lower max_new_tokens, or start the verify worker with a larger kv_cache_mib"
        )

    def _tree_problem(self, session: VerifySession, message: m.ProposeTree) -> str:
        """Why a tree cannot be run, or ""."""
        target, tree = self._target, message.tree
        deepest = max(tree.depths())
        if len(tree) > target.max_nodes:
            return f"{len(tree)} nodes, at most {target.max_nodes} are taken"
        if deepest > target.max_depth:
            return f"depth {deepest}, at most {target.max_depth} is taken"
        if tree.token_ids[0] != session.token_ids[-1]:
            return "the root is not the last committed token"
        try:
            check_token_ids("tree.token_ids", tree.token_ids, target.vocab_size)
        except InvalidField as error:
            return str(error)
        return ""


def _field_of(grammar: Grammar) -> str:
    return f"sampling.grammar.{grammar.kind.value}"


def fault_of(message: m.OpenSession | m.ProposeTree, code: m.FaultCode, text: str) -> m.Fault:
    """A refusal of one session."""
    return m.Fault(code, text, message.session_id, message.epoch)
