"""Our messages as a router reads them."""

import hashlib
import io
import zipfile
from pathlib import Path

from gateway.vllm_engine.messages import abort_message, chunk, complete
from gateway.vllm_engine.tokenizer_files import CHUNK_BYTES, chunks_of, tokenizer_archive
from outrider.v1 import decoding_pb2, generation_pb2

TOP = decoding_pb2.TopLogProbs(token_ids=[7, 8], log_probs=[-0.5, -1.5])


def message(**fields: object) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(token_ids=[7, 9], choice=1, **fields)  # type: ignore[arg-type]


def test_a_chunk_has_what_is_new() -> None:
    told = chunk(message(log_probs=[-0.5, -2.0], top_log_probs=[TOP, TOP])).chunk
    assert (list(told.token_ids), told.completion_tokens, told.index) == ([7, 9], 2, 1)
    log_probs = told.output_logprobs
    assert (list(log_probs.token_logprobs), list(log_probs.token_ids)) == ([-0.5, -2.0], [7, 9])
    assert list(log_probs.top_logprobs[1].token_ids) == [7, 8]
    assert list(log_probs.top_logprobs[1].values) == [-0.5, -1.5]


def test_without_log_probs_there_is_no_empty_list_of_them() -> None:
    assert not chunk(message()).chunk.HasField("output_logprobs")


def test_the_end_of_a_stream_repeats_no_tokens() -> None:
    last = message(
        finish_reason=decoding_pb2.FINISH_REASON_STOP,
        usage=generation_pb2.Usage(prompt_tokens=3, completion_tokens=5),
        speculation_report=decoding_pb2.SpeculationReport(drafted=6, accepted=2),
    )
    end = complete(last, with_tokens=False).complete
    assert (end.finish_reason, end.prompt_tokens, end.index) == ("stop", 3, 1)
    assert (list(end.output_ids), end.completion_tokens) == ([], 0)
    assert (end.spec_draft_tokens, end.spec_accepted_tokens) == (6, 2)


def test_a_whole_answer_has_all_of_it() -> None:
    whole = message(finish_reason=decoding_pb2.FINISH_REASON_LENGTH, log_probs=[-0.5, -2.0])
    end = complete(whole, with_tokens=True).complete
    assert (end.finish_reason, list(end.output_ids), end.completion_tokens) == ("length", [7, 9], 2)
    assert list(end.output_logprobs.token_logprobs) == [-0.5, -2.0]


def test_an_abort_is_an_end_too() -> None:
    assert abort_message().complete.finish_reason == "abort"


def test_the_tokenizer_is_an_archive_that_is_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(bytes(range(256)) * 8192)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("not for routers")
    archive = tokenizer_archive(tmp_path)
    assert archive == tokenizer_archive(tmp_path)
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        assert files.namelist() == ["tokenizer.json", "config.json"]
        assert files.read("config.json") == b"{}"


def test_its_parts_make_the_whole_and_the_last_one_proves_it() -> None:
    archive = bytes(2 * CHUNK_BYTES + 1)
    parts = list(chunks_of(archive))
    assert b"".join(part.data for part in parts) == archive
    assert [part.sha256 for part in parts] == ["", "", hashlib.sha256(archive).hexdigest()]
