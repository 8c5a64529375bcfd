"""A served model of a small context, as the tests of several files need it."""

from gateway.served_model import ServedModel

CONTEXT_LIMIT = 512
VOCAB_SIZE = 300


def sample_model() -> ServedModel:
    """Context of 512, vocabulary of 300 (more than the tiny tokenizer's), trees up to 32 nodes."""
    return ServedModel(
        name="tiny",
        context_limit=CONTEXT_LIMIT,
        vocab_size=VOCAB_SIZE,
        eos_token_ids=(2,),
        methods=("none", "ngram"),
        default_method="ngram",
        max_nodes=32,
        max_depth=8,
    )
