"""A whole draft-verify conversation in memory, without sockets, threads or a clock of its own."""

from collections.abc import Callable, Mapping

import numpy as np

from draft_service.drafters.drafter import Drafter
from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafters.none import NoDrafter
from draft_service.drafting import Drafting, Failed, RoundDone
from draft_service.engine import DraftEngine, TreeLimits
from outrider.protocol import messages as m
from outrider.protocol.channel import MemoryHub
from outrider.protocol.decoding import DecodeLimits, Sampling, Speculation
from outrider.protocol.errors import OutriderError
from outrider.protocol.features import FeatureLayout
from outrider.protocol.sampling_noise import gumbel
from outrider.protocol.session import DraftSession
from tests.fakes.table_target import HIDDEN_SIZE, LAYER_COUNT, LogitsOf, TableTarget
from verify_service.engine import VerifyEngine
from verify_service.kv_blocks import KvBlocks
from verify_service.session_table import GrammarSource
from verify_service.step import Target

EOS = 7
LEASE_MS = 5000
STEP_S = 0.01


def identity(
    vocab_size: int = 8, context_limit: int = 4096, max_nodes: int = 32, boot: bytes = b"v" * 16
) -> m.HelloAck:
    target = m.TargetDescription(
        model="table",
        target_fingerprint="f" * 8,
        tokenizer_fingerprint="t" * 8,
        vocab_size=vocab_size,
        context_limit=context_limit,
        eos_token_ids=(EOS,),
        max_nodes=max_nodes,
        max_depth=16,
        hidden_size=HIDDEN_SIZE,
        layer_count=LAYER_COUNT,
    )
    # Rows cost next to nothing, so that trees are as large as they are allowed to be.
    return m.HelloAck(boot, target, LEASE_MS, m.CostTable((1, 64), (1000, 1001)))


class Conversation:
    """One draft worker and one verify worker over a table target.

    Args:
        logits_of: The target.
        ack: What the verify worker is.
        block_count: Blocks of the pool.
        block_size: Rows of a block.
        token_budget: Rows of a step.
        drafters: Draft methods; `ngram` and `none` where None.
        make_target: Another target than the table, given the rows of the pool.
        layout: Features that the drafters' heads read.
    """

    def __init__(
        self,
        logits_of: LogitsOf,
        ack: m.HelloAck | None = None,
        block_count: int = 256,
        block_size: int = 4,
        token_budget: int = 64,
        drafters: Mapping[str, Drafter] | None = None,
        make_target: Callable[[int], Target] | None = None,
        layout: FeatureLayout | None = None,
        full_trees: bool = False,
        grammars: GrammarSource | None = None,
    ) -> None:
        self.now = 0.0
        self.hub = MemoryHub()
        self.link = self.hub.connect(b"draft")
        self.ack = ack or identity()
        self.slot_count = block_count * block_size
        self._make_target = make_target or (lambda rows: TableTarget(rows, logits_of))
        self._grammars = grammars
        self._shape = (block_count, block_size, token_budget)
        self.drafters = drafters or {"ngram": NgramDrafter(), "none": NoDrafter()}
        self.draft = DraftEngine(
            m.Hello(boot_id=b"d" * 16),
            10.0,
            self.drafters,
            TreeLimits(max_nodes=16, max_depth=8, parallel_degree=4, are_full=full_trees),
            failover_timeout_s=30.0,
            layout=layout,
        )
        self.draft.fleet.follow(["verify"])
        self.verify, self.target = self._new_verify()
        self.to_verify: Callable[[m.Message], int] = lambda message: 1  # copies to deliver
        self.to_draft: Callable[[m.Message], int] = lambda message: 1
        self.rounds: dict[bytes, list[RoundDone]] = {}
        self.errors: dict[bytes, OutriderError] = {}
        self.unread: set[bytes] = set()  # streams whose rounds nobody reads

    def _new_verify(self) -> tuple[VerifyEngine, Target]:
        block_count, block_size, token_budget = self._shape
        blocks = KvBlocks(block_count, block_size)
        engine = VerifyEngine(self.ack, blocks, token_budget, self._grammars)
        return engine, self._make_target(self.slot_count)

    def restart_verify(self, boot: bytes) -> None:
        """The verify worker dies and another one answers at its place."""
        self.ack = m.HelloAck(boot, self.ack.target, self.ack.lease_ms, self.ack.cost_table)
        self.hub.receive()
        self.verify, self.target = self._new_verify()

    def open(self, name: str, prompt: list[int], **options: object) -> bytes:
        """Starts a stream; options are those of `stream`."""
        drafting = stream(name, prompt, **options)  # type: ignore[arg-type]
        self.rounds[drafting.session_id] = []
        self.draft.add(drafting)
        return drafting.session_id

    def turn(self) -> None:
        """One turn of both workers."""
        self.now += STEP_S
        self._turn_draft()
        self._turn_verify()

    def run(self, max_turns: int = 5000) -> None:
        """Turns until no stream is open."""
        for _ in range(3):  # hello and its answer
            self.turn()
        for _ in range(max_turns):
            if not self.draft.session_count:
                self._turn_draft()
                self._turn_verify()
                return
            self.turn()
        raise AssertionError("streams are still open: a livelock")

    def tokens(self, session_id: bytes) -> list[int]:
        """All ids that a stream has committed."""
        return [token for done in self.rounds[session_id] for token in done.token_ids]

    def greet(self) -> None:
        """Lets the two workers say hello."""
        for _ in range(3):
            self.turn()

    def _turn_draft(self) -> None:
        for arrival in self.link.receive():
            assert arrival.message is not None, arrival.problem
            self.draft.handle(0, arrival.message, self.now)
        self.draft.tick(self.now)
        for method, batch in self.draft.ready().items():
            ids = [drafting.session_id for drafting in batch]
            trees = self.drafters[method].draft(ids, self.draft.budgets(batch))
            self.draft.propose(batch, trees, self.now, self.now)
        for _, message in self.draft.outbox:
            for _ in range(self.to_verify(message)):
                self.link.send(message)
        self.draft.outbox.clear()
        for event in self.draft.events:
            if isinstance(event, Failed):
                self.errors[event.session_id] = event.error
            else:
                self.rounds[event.session_id].append(event)
                if event.session_id not in self.unread:
                    self.draft.read(event.session_id, 1)
        self.draft.events.clear()
        for drafter in self.drafters.values():
            drafter.prepare()

    def _turn_verify(self) -> None:
        for arrival in self.hub.receive():
            assert arrival.message is not None, arrival.problem
            self._send(self.verify.handle(arrival.peer, arrival.message, self.now))
        self.verify.expire(self.now)
        step = self.verify.plan()
        self.verify.audit()
        if step is not None:
            answers = self.target.run(step.segments)
            finished = self.verify.finish(step, answers, self.now, lambda: self.now)
            self.target.move_rows(finished.move_sources, finished.move_destinations)
            self._send(finished.outgoing)

    def _send(self, outgoing: list[tuple[bytes, m.ToDraft]]) -> None:
        for peer, message in outgoing:
            for _ in range(self.to_draft(message)):
                self.hub.send(peer, message)


def stream(
    name: str,
    prompt: list[int],
    method: str = "ngram",
    max_new_tokens: int = 40,
    sampling: Sampling | None = None,
    stop_token_ids: tuple[int, ...] = (),
    ignore_eos: bool = False,
    min_new_tokens: int = 0,
    log_probs: bool = False,
    top_log_probs: int = 0,
    speculation: Speculation | None = None,
    is_full: bool = False,
) -> Drafting:
    """A stream named by up to 16 characters."""
    session = DraftSession(
        session_id=name.encode().ljust(16, b"."),
        epoch=0,
        prompt_length=len(prompt),
        token_ids=list(prompt),
        sampling=sampling or Sampling(),
        limits=DecodeLimits(max_new_tokens, stop_token_ids, ignore_eos, min_new_tokens),
        wants_log_probs=log_probs,
        top_log_prob_count=top_log_probs,
        validation_threshold=(speculation or Speculation()).validation_threshold,
    )
    return Drafting(session, speculation or Speculation(), method, wants_full_trees=is_full)


def plain_tokens(
    logits_of: LogitsOf,
    prompt: list[int],
    max_new_tokens: int = 40,
    sampling: Sampling | None = None,
    stops: tuple[int, ...] = (EOS,),
    context_limit: int = 4096,
) -> list[int]:
    """What decoding one token at a time gives: the reference, written without the engine."""

    sampling = sampling or Sampling()
    text = list(prompt)
    while len(text) - len(prompt) < max_new_tokens and len(text) < context_limit:
        scores = np.asarray(logits_of(tuple(text)), dtype=np.float64)
        if not sampling.is_greedy:
            noise = gumbel(sampling.seed, len(text), np.arange(len(scores)))
            scores = scores / sampling.temperature + noise
        text.append(int(scores.argmax()))
        if text[-1] in stops:
            break
    return text[len(prompt) :]
