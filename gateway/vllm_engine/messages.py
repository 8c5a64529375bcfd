"""Our messages as a router reads them. Policy: plain messages."""

from collections.abc import Iterator

from smg_grpc_proto.generated import vllm_engine_pb2

from gateway.finish_reasons import FINISH_REASON_NAMES
from outrider.v1 import generation_pb2

ABORTED = "abort"


def streamed(
    message: generation_pb2.GenerateResponse,
) -> Iterator[vllm_engine_pb2.GenerateResponse]:
    """What one message of a stream is sent as."""
    if message.token_ids:
        yield chunk(message)
    if message.finish_reason:
        yield complete(message, with_tokens=False)


def chunk(message: generation_pb2.GenerateResponse) -> vllm_engine_pb2.GenerateResponse:
    """What one message of a stream adds; counts are of this message alone."""
    return vllm_engine_pb2.GenerateResponse(
        chunk=vllm_engine_pb2.GenerateStreamChunk(
            token_ids=message.token_ids,
            prompt_tokens=message.usage.prompt_tokens,
            completion_tokens=len(message.token_ids),
            output_logprobs=_log_probs(message),
            index=message.choice,
        )
    )


def complete(
    message: generation_pb2.GenerateResponse, *, with_tokens: bool
) -> vllm_engine_pb2.GenerateResponse:
    """The end of an answer.

    Args:
        message: Its last message, or all of it as one.
        with_tokens: True: nothing was sent before, so its tokens are in it.
    """
    report = message.speculation_report
    whole = vllm_engine_pb2.GenerateComplete(
        finish_reason=FINISH_REASON_NAMES[message.finish_reason],
        prompt_tokens=message.usage.prompt_tokens,
        index=message.choice,
        spec_accepted_tokens=report.accepted,
        spec_draft_tokens=report.drafted,
    )
    if with_tokens:
        whole.output_ids.extend(message.token_ids)
        whole.completion_tokens = len(message.token_ids)
        log_probs = _log_probs(message)
        if log_probs is not None:
            whole.output_logprobs.CopyFrom(log_probs)
    return vllm_engine_pb2.GenerateResponse(complete=whole)


def abort_message() -> vllm_engine_pb2.GenerateResponse:
    """The end of an answer that was aborted."""
    return vllm_engine_pb2.GenerateResponse(
        complete=vllm_engine_pb2.GenerateComplete(finish_reason=ABORTED)
    )


def _log_probs(
    message: generation_pb2.GenerateResponse,
) -> vllm_engine_pb2.OutputLogProbs | None:
    if not message.log_probs:
        return None
    return vllm_engine_pb2.OutputLogProbs(
        token_logprobs=message.log_probs,
        token_ids=message.token_ids,
        top_logprobs=[
            vllm_engine_pb2.TopLogProbs(values=one.log_probs, token_ids=one.token_ids)
            for one in message.top_log_probs
        ],
    )
