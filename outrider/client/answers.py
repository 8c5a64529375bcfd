"""What comes back, as plain values: one message of a stream, a whole answer, the served model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from outrider.protocol.decoding import FinishReason, TopLogProbs
from outrider.protocol.errors import InternalFailure, InvalidField
from outrider.protocol.round_tree import RoundTree
from outrider.v1 import decoding_pb2, generation_pb2

_CUT_SHORT = "the service ended the stream before the answer was complete"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the prompt, after the chat template, and tokens generated."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Report:
    """What speculation did for one answer; the fields of `SpeculationReport`."""

    rounds: int
    drafted: int
    accepted: int
    tokens_per_round: float
    draft_us: int
    wire_us: int
    queue_us: int
    verify_us: int
    method: str
    offered_by_depth: tuple[int, ...]
    accepted_by_depth: tuple[int, ...]
    failovers: int = 0

    @classmethod
    def from_proto(cls, proto: decoding_pb2.SpeculationReport) -> Self:
        """Reads."""
        return cls(**_values(proto, cls.__slots__))


@dataclass(frozen=True, slots=True)
class Round:
    """One round, token by token; the fields of `RoundReport`."""

    tree: RoundTree
    node_texts: tuple[str, ...]
    token_texts: tuple[str, ...]

    @classmethod
    def from_proto(cls, proto: generation_pb2.RoundReport) -> Self:
        """Reads.

        Raises:
            InvalidTree: There is no tree in it.
        """
        tree = RoundTree.from_proto(proto.tree)
        return cls(tree, tuple(proto.node_texts), tuple(proto.token_texts))


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one round added to an answer.

    Args:
        text: New text; may be empty while a character or a possible stop string is incomplete.
        token_ids: New ids.
        accepted_count: Of token_ids, how many were accepted from the draft; they come first.
        log_probs: One per id, where asked for.
        top_log_probs: One per id, where asked for.
        choice: Number of the answer, from 0.
        request_id: As it was sent.
        finish_reason: Why the answer ends here; None: it goes on.
        usage: With the last chunk.
        report: With the last chunk.
        round: Where report_rounds asked for it.
    """

    text: str
    token_ids: tuple[int, ...]
    accepted_count: int = 0
    log_probs: tuple[float, ...] = ()
    top_log_probs: tuple[TopLogProbs, ...] = ()
    choice: int = 0
    request_id: str = ""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    report: Report | None = None
    round: Round | None = None

    @classmethod
    def from_proto(cls, proto: generation_pb2.GenerateResponse) -> Self:
        """Reads.

        Raises:
            InternalFailure: It holds what this version does not know.
        """
        usage, report, round_ = proto.usage, proto.speculation_report, proto.round_report
        try:
            return cls(
                **_values(proto, ("text", "token_ids", "accepted_count", "log_probs")),
                top_log_probs=tuple(TopLogProbs.from_proto(one) for one in proto.top_log_probs),
                choice=proto.choice,
                request_id=proto.request_id,
                finish_reason=FinishReason.from_proto(proto.finish_reason),
                usage=Usage(usage.prompt_tokens, usage.completion_tokens)
                if proto.HasField("usage")
                else None,
                report=Report.from_proto(report) if proto.HasField("speculation_report") else None,
                round=Round.from_proto(round_) if proto.HasField("round_report") else None,
            )
        except (ValueError, InvalidField) as error:
            raise InternalFailure(f"the service sent what cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: all of its chunks; the fields are theirs."""

    text: str
    token_ids: tuple[int, ...]
    accepted_count: int
    log_probs: tuple[float, ...]
    top_log_probs: tuple[TopLogProbs, ...]
    choice: int
    request_id: str
    finish_reason: FinishReason
    usage: Usage
    report: Report
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The served model and its limits; the fields of `GetModelResponse`."""

    model: str
    context_limit: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    methods: tuple[str, ...]
    default_method: str
    max_nodes: int
    max_depth: int
    has_chat_template: bool

    @classmethod
    def from_proto(cls, proto: generation_pb2.GetModelResponse) -> Self:
        """Reads."""
        return cls(**_values(proto, cls.__slots__))


def collect(chunks: Iterable[Chunk]) -> list[Answer]:
    """Joins the chunks of a call into its answers, in their order.

    Args:
        chunks: All of them.

    Raises:
        InternalFailure: An answer has no end.
    """
    by_choice: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        by_choice.setdefault(chunk.choice, []).append(chunk)
    if not by_choice:
        raise InternalFailure(_CUT_SHORT)
    return [_joined(by_choice[choice]) for choice in sorted(by_choice)]


def _joined(chunks: list[Chunk]) -> Answer:
    last = chunks[-1]
    if last.finish_reason is None or last.usage is None or last.report is None:
        raise InternalFailure(_CUT_SHORT)
    return Answer(
        text="".join(chunk.text for chunk in chunks),
        token_ids=tuple(one for chunk in chunks for one in chunk.token_ids),
        accepted_count=sum(chunk.accepted_count for chunk in chunks),
        log_probs=tuple(one for chunk in chunks for one in chunk.log_probs),
        top_log_probs=tuple(one for chunk in chunks for one in chunk.top_log_probs),
        choice=last.choice,
        request_id=last.request_id,
        finish_reason=last.finish_reason,
        usage=last.usage,
        report=last.report,
        rounds=tuple(chunk.round for chunk in chunks if chunk.round is not None),
    )


def _values(proto: Any, names: Iterable[str]) -> dict[str, Any]:
    """Fields of a message by name, repeated ones as tuples."""
    fields = proto.DESCRIPTOR.fields_by_name
    return {
        name: tuple(getattr(proto, name)) if fields[name].is_repeated else getattr(proto, name)
        for name in names
    }
