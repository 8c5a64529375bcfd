"""The model behind the draft worker, and the limits a request must keep. Plain values."""

from dataclasses import dataclass
from typing import Self

from outrider.protocol.errors import Mismatch
from outrider.v1 import drafting_pb2, generation_pb2


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What is served now.

    Args:
        name: Shown to clients.
        context_limit: Most tokens of prompt and answer together.
        vocab_size: Token ids are below this number.
        eos_token_ids: Ids that end a stream unless ignore_eos is set.
        methods: Draft methods that a request may name.
        default_method: Method used where a request names none.
        max_nodes: Most nodes of a tree, the root included.
        max_depth: Most drafted tokens on one path.
        tokenizer_fingerprint: Of the target's tokenizer, or "" where the worker does not know it.
        target_fingerprint: Of the target's weights; two workers with the same one give the same
            text.
    """

    name: str
    context_limit: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    methods: tuple[str, ...]
    default_method: str
    max_nodes: int
    max_depth: int
    tokenizer_fingerprint: str = ""
    target_fingerprint: str = ""

    @classmethod
    def from_worker(cls, worker: drafting_pb2.GetWorkerResponse, name: str = "") -> Self:
        """Reads a draft worker's description.

        Args:
            worker: Its answer.
            name: Shown to clients instead of the worker's name for the target, where not empty.
        """
        return cls(
            name=name or worker.model,
            context_limit=worker.context_limit,
            vocab_size=worker.vocab_size,
            eos_token_ids=tuple(worker.eos_token_ids),
            methods=tuple(worker.methods),
            default_method=worker.default_method,
            max_nodes=worker.max_nodes,
            max_depth=worker.max_depth,
            tokenizer_fingerprint=worker.tokenizer_fingerprint,
            target_fingerprint=worker.target_fingerprint,
        )

    def check_tokenizer(
        self, token_id_end: int, vocab_size: int | None, fingerprint: str = ""
    ) -> None:
        """Refuses a tokenizer that belongs to another target.

        Args:
            token_id_end: The tokenizer's ids are below this number.
            vocab_size: Vocabulary of the configuration beside the tokenizer; None: unknown.
            fingerprint: Of the tokenizer; "": unknown.

        Raises:
            Mismatch: Ids are missing in the target's vocabulary, or sizes or fingerprints differ.
        """
        if token_id_end > self.vocab_size:
            raise Mismatch(
                f"the tokenizer has ids up to {token_id_end - 1}, but the draft worker's target "
                f"({self.name}) has a vocabulary of {self.vocab_size}; start the gateway with the "
                "target's own model folder"
            )
        if vocab_size is not None and vocab_size != self.vocab_size:
            raise Mismatch(
                f"the gateway's model folder is of a model with a vocabulary of {vocab_size}, but "
                f"the draft worker's target ({self.name}) has one of {self.vocab_size}; start "
                "both with the same model"
            )

        served = self.tokenizer_fingerprint
        if fingerprint and served and fingerprint != served:
            raise Mismatch(
                f"the gateway's tokenizer ({fingerprint[:12]}) is not that of the draft worker's "
                f"target {self.name} ({served[:12]}); start both with the same model folder"
            )

    def to_proto(self, has_chat_template: bool) -> generation_pb2.GetModelResponse:
        """The answer to GetModel."""
        return generation_pb2.GetModelResponse(
            model=self.name,
            context_limit=self.context_limit,
            vocab_size=self.vocab_size,
            eos_token_ids=self.eos_token_ids,
            methods=self.methods,
            default_method=self.default_method,
            max_nodes=self.max_nodes,
            max_depth=self.max_depth,
            has_chat_template=has_chat_template,
        )
