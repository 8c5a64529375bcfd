"""Whether a tokenizer fits what the draft worker serves."""

from dataclasses import replace

import pytest

from gateway.served_model import ServedModel
from outrider.protocol.errors import Mismatch
from outrider.v1 import drafting_pb2
from tests.unit.gateway.sample_model import VOCAB_SIZE, sample_model


@pytest.mark.parametrize("vocab_size", [None, VOCAB_SIZE])
@pytest.mark.parametrize("token_id_end", [VOCAB_SIZE, VOCAB_SIZE - 40])
def test_a_smaller_tokenizer_fits_a_padded_vocabulary(
    token_id_end: int, vocab_size: int | None
) -> None:
    sample_model().check_tokenizer(token_id_end, vocab_size)


def test_ids_beyond_the_vocabulary_are_a_mismatch() -> None:
    with pytest.raises(Mismatch, match="300"):
        sample_model().check_tokenizer(VOCAB_SIZE + 1, None)


def test_another_models_configuration_is_a_mismatch() -> None:
    with pytest.raises(Mismatch, match="same model"):
        sample_model().check_tokenizer(100, VOCAB_SIZE + 1)


def test_another_tokenizer_of_the_same_size_is_a_mismatch() -> None:
    model = replace(sample_model(), tokenizer_fingerprint="a" * 64)
    with pytest.raises(Mismatch, match=r"bbbbbbbbbbbb.*aaaaaaaaaaaa"):
        model.check_tokenizer(VOCAB_SIZE, VOCAB_SIZE, "b" * 64)
    model.check_tokenizer(VOCAB_SIZE, VOCAB_SIZE, "a" * 64)
    model.check_tokenizer(VOCAB_SIZE, VOCAB_SIZE, "")
    sample_model().check_tokenizer(VOCAB_SIZE, VOCAB_SIZE, "b" * 64)


def test_a_worker_and_its_description_say_the_same() -> None:
    worker = drafting_pb2.GetWorkerResponse(
        model="target", context_limit=10, vocab_size=20, methods=["none"], max_nodes=3, max_depth=2
    )
    shown = ServedModel.from_worker(worker, "mine").to_proto(has_chat_template=True)
    assert (shown.model, shown.context_limit, shown.vocab_size) == ("mine", 10, 20)
    assert (list(shown.methods), shown.max_nodes, shown.max_depth) == (["none"], 3, 2)
    assert ServedModel.from_worker(worker).name == "target"
