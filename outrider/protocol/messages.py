"""The messages between a draft and a verify worker, filed by who receives them.

Frozen values that check what can be checked without knowing the session; the wire form is in
`codec.py`, the rules of the conversation in `session.py`.
"""

from dataclasses import dataclass, field
from enum import Enum

from outrider.protocol.decoding import (
    LOSSLESS,
    MAX_TOP_LOG_PROBS,
    DecodeLimits,
    FinishReason,
    Sampling,
    TopLogProbs,
    check_threshold,
)
from outrider.protocol.errors import InvalidField
from outrider.protocol.features import MAX_TENSOR_BYTES, TensorType, check_feature_layers
from outrider.protocol.token_tree import InvalidTree, TokenTree
from outrider.v1 import speculation_pb2 as pb

PROTOCOL_VERSION = 1
ID_BYTES = 16
MAX_SALT_BYTES = 64
MAX_UINT32 = 2**32 - 1


class FaultCode(Enum):
    """Kinds of refusal; the values are those of the proto enum."""

    BAD_FRAME = pb.FAULT_CODE_BAD_FRAME
    VERSION = pb.FAULT_CODE_VERSION
    FINGERPRINT_MISMATCH = pb.FAULT_CODE_FINGERPRINT_MISMATCH
    INVALID_TREE = pb.FAULT_CODE_INVALID_TREE
    INVALID_ARGUMENT = pb.FAULT_CODE_INVALID_ARGUMENT
    SESSION_GONE = pb.FAULT_CODE_SESSION_GONE
    RESOURCE_EXHAUSTED = pb.FAULT_CODE_RESOURCE_EXHAUSTED
    NON_FINITE_LOGITS = pb.FAULT_CODE_NON_FINITE_LOGITS
    INTERNAL = pb.FAULT_CODE_INTERNAL
    HELLO_REQUIRED = pb.FAULT_CODE_HELLO_REQUIRED


# ---- both ways


MAX_BUSY_MS = 60_000


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The sender's own loop has turned `progress` times; ZMTP's pings only show its I/O thread.

    Args:
        boot_id: Of the sender.
        progress: Turns of its loop.
        busy_ms: How much longer than usual it may now be silent because it computes, milliseconds;
            more than `MAX_BUSY_MS` counts as that.
    """

    boot_id: bytes
    progress: int
    busy_ms: int = 0


# ---- received by the verify worker


@dataclass(frozen=True, slots=True)
class Hello:
    """Who asks. An empty fingerprint or a vocabulary of 0 fits any target.

    Args:
        boot_id: New for each start of the draft worker.
        protocol_version: What it speaks.
        tokenizer_fingerprint: Tokenizer it was built for, or "".
        vocab_size: Vocabulary it was built for, or 0.
        feature_layers: Layer boundaries whose features its sessions may want, low to high, as in
            `FeatureLayout`; empty for none.

    Raises:
        InvalidField: The layers do not rise, or one is out of range.
    """

    boot_id: bytes
    protocol_version: int = PROTOCOL_VERSION
    tokenizer_fingerprint: str = ""
    vocab_size: int = 0
    feature_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_feature_layers(self.feature_layers)


@dataclass(frozen=True, slots=True)
class OpenSession:
    """One placement of a session.

    Args:
        session_id: 16 bytes.
        epoch: Number of the placement, from 0.
        token_ids: Prompt and already committed ids; the last one is the first root.
        prompt_length: How many of `token_ids` are the prompt, at least 1.
        sampling: How tokens are drawn.
        limits: When the session ends; `max_new_tokens` counts from the end of the prompt.
        wants_log_probs: True: verdicts carry log-probabilities.
        traceparent: W3C trace context, or "".
        features_from: First committed row whose features are wanted, from 0 to the first root's
            row; None: none are.
        top_log_prob_count: Likeliest tokens that verdicts list beside each committed one, 0 to
            MAX_TOP_LOG_PROBS.
        cache_salt: Cached rows are shared with sessions of the same salt only, up to
            MAX_SALT_BYTES.
        validation_threshold: As in `Speculation`.

    Raises:
        InvalidField: A length, count or row is out of range.
    """

    session_id: bytes
    epoch: int
    token_ids: tuple[int, ...]
    prompt_length: int
    sampling: Sampling
    limits: DecodeLimits
    wants_log_probs: bool = False
    traceparent: str = ""
    features_from: int | None = None
    top_log_prob_count: int = 0
    cache_salt: bytes = b""
    validation_threshold: float = LOSSLESS

    def __post_init__(self) -> None:
        _check_session_id(self.session_id)
        check_cache_salt(self.cache_salt)
        check_threshold(self.validation_threshold)
        if not 0 <= self.top_log_prob_count <= MAX_TOP_LOG_PROBS:
            raise InvalidField("top_logprobs", f"must be from 0 to {MAX_TOP_LOG_PROBS}")
        count = len(self.token_ids)
        if not 1 <= self.prompt_length <= count:
            raise InvalidField(
                "prompt_length", f"must be from 1 to {count} token_ids, got {self.prompt_length}"
            )
        if self.features_from is not None and not 0 <= self.features_from < count:
            raise InvalidField(
                "features_from", f"must be below {count} token_ids, got {self.features_from}"
            )


@dataclass(frozen=True, slots=True)
class ProposeTree:
    """One round's candidates; `tree.token_ids[0]` repeats the last committed token."""

    session_id: bytes
    epoch: int
    round: int
    tree: TokenTree

    def __post_init__(self) -> None:
        _check_session_id(self.session_id)


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Forget the session; not answered."""

    session_id: bytes
    epoch: int

    def __post_init__(self) -> None:
        _check_session_id(self.session_id)


# ---- received by the draft worker


@dataclass(frozen=True, slots=True)
class CostTable:
    """Measured time of the target's forward pass by its rows.

    Args:
        rows: Rising row counts, at least one, the first being 1.
        micros: Microseconds for each.

    Raises:
        InvalidField: The points are empty, out of order or not positive.
    """

    rows: tuple[int, ...]
    micros: tuple[int, ...]

    def __post_init__(self) -> None:
        rises = all(a < b for a, b in zip(self.rows, self.rows[1:], strict=False))
        if not self.rows or len(self.rows) != len(self.micros) or not rises:
            raise InvalidField("cost_table", "needs rising row counts with one time each")
        if min(self.rows) < 1 or min(self.micros) < 1:
            raise InvalidField("cost_table", "rows and times must be at least 1")

    def micros_at(self, rows: int) -> float:
        """Time of `rows` rows, microseconds: linear between points and beyond the last two."""
        points = list(zip(self.rows, self.micros, strict=True))
        if rows <= points[0][0] or len(points) == 1:
            return float(points[0][1])
        after = next((i for i, (r, _) in enumerate(points) if r >= rows), len(points) - 1)
        (low_rows, low), (high_rows, high) = points[after - 1], points[after]
        return low + (high - low) * (rows - low_rows) / (high_rows - low_rows)

    def rows_within(self, micros: float, most: int) -> int:
        """How many rows a forward pass may have to take at most `micros`, from 1 to `most`."""
        return next((rows for rows in range(most, 1, -1) if self.micros_at(rows) <= micros), 1)


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """What a verify worker serves and the limits a peer must keep.

    Args:
        model: Name of the target.
        target_fingerprint: Hash over its weights.
        tokenizer_fingerprint: Hash over its tokenizer, or "".
        vocab_size: Token ids are below this number.
        context_limit: Most tokens of a session, prompt included.
        eos_token_ids: End-of-sequence ids.
        max_nodes: Most nodes of a tree, the root included.
        max_depth: Most drafted tokens on one path.
        hidden_size: Width of one layer's hidden state; 0 where no features are given.
        layer_count: Decoder layers.
    """

    model: str
    target_fingerprint: str
    tokenizer_fingerprint: str
    vocab_size: int
    context_limit: int
    eos_token_ids: tuple[int, ...]
    max_nodes: int
    max_depth: int
    hidden_size: int = 0
    layer_count: int = 0


@dataclass(frozen=True, slots=True)
class HelloAck:
    """Who answers: sessions of another `boot_id` are gone."""

    boot_id: bytes
    target: TargetDescription
    lease_ms: int
    cost_table: CostTable
    protocol_version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one round committed: the accepted path, then the bonus token.

    Args:
        session_id: 16 bytes.
        epoch: Placement.
        round: Round within the placement.
        accepted_indices: Nodes of the surviving path without the root, top down.
        bonus_token: The token the target adds; None where the session ended inside the path.
        finish_reason: Set where the session ended with this round.
        log_probs: One per committed token where wanted, else empty.
        queue_us: Arrival to the start of the forward pass, microseconds.
        verify_us: Forward pass and acceptance, microseconds.
        batch_rows: Rows of the forward pass this round was part of.
        batch_trees: Trees among them.
        batch_nodes: Nodes of all those trees; the other rows are prefill.
        top_log_probs: One per committed token where wanted, else empty.
    """

    session_id: bytes
    epoch: int
    round: int
    accepted_indices: tuple[int, ...]
    bonus_token: int | None
    finish_reason: FinishReason | None = None
    log_probs: tuple[float, ...] = ()
    queue_us: int = 0
    verify_us: int = 0
    batch_rows: int = 0
    batch_trees: int = 0
    batch_nodes: int = 0
    top_log_probs: tuple[TopLogProbs, ...] = ()

    def __post_init__(self) -> None:
        _check_session_id(self.session_id)

    def committed_tokens(self, tree: TokenTree) -> list[int]:
        """Ids this verdict commits, given the tree it answers.

        Raises:
            InvalidField: The indices are no path down from the root of `tree`, or nothing is
                committed.
        """
        try:
            tokens = tree.tokens_along(self.accepted_indices)
        except InvalidTree as error:
            raise InvalidField("accepted_indices", str(error)) from None
        if self.bonus_token is not None:
            tokens.append(self.bonus_token)
        if not tokens:
            raise InvalidField("accepted_indices", "a verdict commits at least one token")
        return tokens


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """Hidden states of committed rows, sent before the verdict of the round that committed them.

    Args:
        session_id: 16 bytes.
        epoch: Placement.
        first_row: Position of the first row.
        row_count: Rows, at least 1.
        row_size: Values of a row, at least 1: layers asked for times hidden size, low layer first.
        tensor_type: Element type.
        data: `row_count * row_size` elements, row by row, little-endian.

    Raises:
        InvalidField: A count is not positive, or the data is too long or not as long as the other
            fields say.
    """

    session_id: bytes
    epoch: int
    first_row: int
    row_count: int
    row_size: int
    tensor_type: TensorType
    data: bytes

    def __post_init__(self) -> None:
        _check_session_id(self.session_id)
        for name, count in (("row_count", self.row_count), ("row_size", self.row_size)):
            if count < 1:
                raise InvalidField(name, f"must be at least 1, got {count}")
        size = self.row_count * self.row_size * self.tensor_type.size
        if size > MAX_TENSOR_BYTES:
            raise InvalidField("data", f"{size} bytes, at most {MAX_TENSOR_BYTES} fit a frame")
        if len(self.data) != size:
            raise InvalidField("data", f"{len(self.data)} bytes, the other fields say {size}")

    @property
    def stop_row(self) -> int:
        """Position behind the last row."""
        return self.first_row + self.row_count


@dataclass(frozen=True, slots=True)
class Fault:
    """A refusal: of one session where `session_id` is set, else of the message just sent."""

    code: FaultCode
    message: str
    session_id: bytes = b""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class GoAway:
    """No new sessions here; running ones go on."""

    reason: str = field(default="")


ToVerify = Hello | OpenSession | ProposeTree | CloseSession | Heartbeat
ToDraft = HelloAck | FeatureRows | Verdict | Fault | GoAway | Heartbeat
Message = ToVerify | ToDraft


def short_id(session_id: bytes) -> str:
    """A session id as it stands in logs and spans."""
    return session_id.hex()[:12]


def check_cache_salt(salt: bytes) -> None:
    """Refuses a salt that is too long.

    Raises:
        InvalidField: It is.
    """
    if len(salt) > MAX_SALT_BYTES:
        raise InvalidField("cache_salt", f"has {len(salt)} bytes, at most {MAX_SALT_BYTES}")


def _check_session_id(session_id: bytes) -> None:
    if len(session_id) != ID_BYTES:
        raise InvalidField("session_id", f"must be {ID_BYTES} bytes, got {len(session_id)}")
