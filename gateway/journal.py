"""The journal of one stream: all that is needed to place it on a worker again, from any point.

Parameters are frozen; committed tokens are only ever appended. What a worker sends is checked
here, so a faulty worker ends its stream instead of changing it. Policy: no clock, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.requests import GenerationJob
from gateway.speculation_reports import joined
from gateway.worker_table import Wish
from outrider.protocol.affinity import affinity_key
from outrider.protocol.decoding import MAX_NODES, DecodeLimits, FinishReason
from outrider.protocol.errors import InternalFailure
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.token_tree import ROOT, InvalidTree
from outrider.v1 import decoding_pb2, drafting_pb2

SESSION_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class CommittedRound:
    """What one message of a worker adds to the stream.

    Args:
        token_ids: New ids; none only where the message just ends the stream.
        log_probs: One per id where wanted, else empty.
        top_log_probs: The same.
        accepted_count: Of token_ids, how many were accepted from the tree.
        finish_reason: Why the stream ends here; None: it goes on.
        report: What speculation did so far, over all placements.
        tree: The round's candidates where wanted, else None.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    top_log_probs: tuple[decoding_pb2.TopLogProbs, ...]
    accepted_count: int
    finish_reason: FinishReason | None
    report: decoding_pb2.SpeculationReport
    tree: RoundTree | None = None


class Journal:
    """One stream, over all its placements.

    Args:
        session_id: 16 bytes, never reused.
        job: The request.
        limits: The job's limits, which it has (there is something to generate).
        vocab_size: Committed ids are below this number.
    """

    def __init__(
        self, session_id: bytes, job: GenerationJob, limits: DecodeLimits, vocab_size: int
    ) -> None:
        if len(session_id) != SESSION_ID_BYTES:
            raise ValueError(f"session_id has {len(session_id)} bytes, not {SESSION_ID_BYTES}")
        self._session_id = session_id
        self._job = job
        self._limits = limits
        self._vocab_size = vocab_size
        self._epoch = 0
        self._committed: list[int] = []
        self._earlier = decoding_pb2.SpeculationReport()  # of the placements before this one
        self._report = decoding_pb2.SpeculationReport()

    @property
    def epoch(self) -> int:
        """Number of the current placement, from 0."""
        return self._epoch

    @property
    def committed_token_ids(self) -> Sequence[int]:
        """All tokens of the answer so far."""
        return tuple(self._committed)

    def wish(self, target_fingerprint: str) -> Wish:
        """What its worker must have.

        Args:
            target_fingerprint: Of the target that it began with.
        """
        job = self._job
        key = affinity_key(job.prompt_token_ids, job.cache_salt)
        return Wish(key, job.speculation.method, target_fingerprint)

    def placement(self, method: str) -> drafting_pb2.DraftRequest:
        """The request that opens the current epoch on a worker.

        Args:
            method: Draft method there; "": the worker's own choice.
        """
        speculation = self._job.speculation.to_proto()
        speculation.method = method
        return drafting_pb2.DraftRequest(
            session_id=self._session_id,
            epoch=self._epoch,
            prompt_token_ids=self._job.prompt_token_ids,
            committed_token_ids=self._committed,
            sampling=self._job.sampling.to_proto(),
            limits=self._limits.to_proto(),
            speculation=speculation,
            logprobs=self._job.logprobs,
            top_logprobs=self._job.top_logprobs,
            cache_salt=self._job.cache_salt,
            report_trees=self._job.report_rounds,
        )

    def begin_epoch(self) -> None:
        """Moves to the next placement; answers of the earlier one are of no use any more."""
        self._epoch += 1
        self._earlier.CopyFrom(self._report)
        self._earlier.failovers += 1

    def append(self, response: drafting_pb2.DraftResponse) -> CommittedRound | None:
        """Takes a worker's message.

        Args:
            response: Of the current epoch's placement.

        Returns:
            What is new in it; None where all of it is known already.

        Raises:
            InternalFailure: Tokens are missing before it, it contradicts an earlier one, or it is
                not a legal message.
        """
        self._check_form(response)
        known_count = len(self._committed) - response.index
        if known_count < 0:
            raise InternalFailure(
                f"the draft worker skipped from token {len(self._committed)} to {response.index}"
            )
        ids = response.token_ids
        repeated = ids[:known_count]
        if repeated != self._committed[response.index : response.index + len(repeated)]:
            raise InternalFailure("the draft worker changed a token that was committed before")
        finish_reason = FinishReason.from_proto(response.finish_reason)
        new = tuple(ids[known_count:])
        if not new and finish_reason is None:
            return None
        if len(self._committed) + len(new) > self._limits.max_new_tokens:
            raise InternalFailure("the draft worker sent more tokens than were asked for")
        tree = self._read_tree(response)
        self._committed += new
        self._report = joined(self._earlier, response.report) if self._epoch else response.report
        return CommittedRound(
            token_ids=new,
            log_probs=tuple(response.log_probs[known_count:]),
            top_log_probs=tuple(response.top_log_probs[known_count:]),
            accepted_count=max(response.accepted_count - known_count, 0),
            finish_reason=finish_reason,
            report=self._report,
            tree=tree,
        )

    def _check_form(self, response: drafting_pb2.DraftResponse) -> None:
        ids = response.token_ids
        for is_wanted, found in (
            (self._job.logprobs, len(response.log_probs)),
            (self._job.top_logprobs > 0, len(response.top_log_probs)),
        ):
            wanted = len(ids) if is_wanted else 0
            if found != wanted:
                raise InternalFailure(
                    f"the draft worker sent {found} log-probabilities, not {wanted}"
                )
        if ids and max(ids) >= self._vocab_size:
            raise InternalFailure(
                f"the draft worker sent token {max(ids)} of a vocabulary of {self._vocab_size}"
            )
        if response.accepted_count > len(ids):
            raise InternalFailure("the draft worker accepted more tokens than it committed")

    def _read_tree(self, response: drafting_pb2.DraftResponse) -> RoundTree | None:
        """The round's candidates, where they are wanted.

        Raises:
            InternalFailure: There are none, or they are not those of this round.
        """
        if not self._job.report_rounds or not response.token_ids:
            return None
        try:
            tree = RoundTree.from_proto(response.tree)
        except InvalidTree as error:
            raise InternalFailure(f"the draft worker sent no tree: {error}") from None
        ids = tree.tree.token_ids
        if len(ids) > MAX_NODES or max(ids) >= self._vocab_size:
            raise InternalFailure("the draft worker sent a tree that is beyond the limits")
        before = self._committed[: response.index] or self._job.prompt_token_ids
        accepted = response.token_ids[: response.accepted_count]
        if ids[ROOT] != before[-1] or tree.accepted_token_ids != accepted:
            raise InternalFailure("the draft worker sent the tree of another round")
        return tree
