"""A session waits for its own grammar, and nobody else does."""

from outrider.protocol import messages as m
from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.errors import BadGrammar
from outrider.protocol.grammar import Grammar, GrammarKind
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import identity
from verify_service.engine import VerifyEngine
from verify_service.kv_blocks import KvBlocks

PEER = b"draft"
GRAMMAR = Grammar(GrammarKind.REGEX, "a+")


class SlowSource:
    """A grammar whose reading ends when the test says so."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.follower: object | None = None
        self.error: BadGrammar | None = None

    def begin(self, grammar, token_ids):
        self.begun.append(list(token_ids))
        return self

    def ready(self):
        if self.error is not None:
            raise self.error
        return self.follower


def opened(name: bytes, grammar: Grammar | None) -> list[m.ToVerify]:
    sampling = Sampling(grammar=grammar)
    limits = DecodeLimits(9, ignore_eos=True)
    return [
        m.OpenSession(name * 16, 0, (1, 2, 3), 2, sampling, limits),
        m.ProposeTree(name * 16, 0, 0, TokenTree.root_only(3)),
    ]


def engine_with(source: SlowSource) -> VerifyEngine:
    engine = VerifyEngine(identity(), KvBlocks(64, 4), 64, source)
    for message in [m.Hello(b"boot"), *opened(b"a", GRAMMAR), *opened(b"b", None)]:
        engine.handle(PEER, message, 0.0)
    return engine


def sessions_of(engine: VerifyEngine) -> list[bytes]:
    step = engine.plan()
    return [] if step is None else sorted(one.opened.session_id[:1] for one in step.sessions)


def test_others_run_meanwhile_and_it_joins_when_its_grammar_is_there():
    source = SlowSource()
    engine = engine_with(source)
    assert source.begun == [[3]], "it stands behind what was committed"
    assert engine.is_reading
    assert engine.settle() == []
    assert sessions_of(engine) == [b"b"]
    source.follower = object()
    assert engine.settle() == []
    assert sessions_of(engine) == [b"a", b"b"]
    session = next(one for one in engine.sessions if one.opened.sampling.grammar)
    assert session.constraints is not None
    assert session.constraints.follower is source.follower


def test_a_grammar_that_is_none_ends_its_session_in_words():
    source = SlowSource()
    engine = engine_with(source)
    source.error = BadGrammar("no such rule")
    ((peer, fault),) = engine.settle()
    assert peer == PEER
    assert isinstance(fault, m.Fault)
    assert fault.code is m.FaultCode.INVALID_ARGUMENT
    assert fault.session_id == b"a" * 16
    assert fault.message == "sampling.grammar.regex: no such rule"
    assert sessions_of(engine) == [b"b"]
    engine.audit()


def test_a_session_that_is_closed_meanwhile_is_forgotten():
    source = SlowSource()
    engine = engine_with(source)
    engine.handle(PEER, m.CloseSession(b"a" * 16, 0), 0.0)
    assert not engine.is_reading
    source.error = BadGrammar("nobody hears this")
    assert engine.settle() == []
