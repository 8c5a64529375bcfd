"""Answers as JSON: one message of a stream, or a whole answer made of all of them."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from gateway.choices import Messages
from gateway.finish_reasons import FINISH_REASON_NAMES
from gateway.round_report import round_report_json
from outrider.v1 import generation_pb2


def message_json(message: generation_pb2.GenerateResponse, logprobs: bool) -> dict[str, Any]:
    """One message.

    Args:
        message: As over gRPC.
        logprobs: True: log_probs were asked for, and are shown even where empty.

    Returns:
        The same fields; those of the last message only where it is the last.
    """
    fields: dict[str, Any] = {"text": message.text, "token_ids": list(message.token_ids)}
    if logprobs:
        fields["log_probs"] = list(message.log_probs)
    if message.top_log_probs:
        fields["top_log_probs"] = [
            {"token_ids": list(one.token_ids), "log_probs": list(one.log_probs)}
            for one in message.top_log_probs
        ]
    fields["accepted_count"] = message.accepted_count
    if message.choice:
        fields["choice"] = message.choice
    if message.request_id:
        fields["request_id"] = message.request_id
    if message.HasField("round_report"):
        fields["round_report"] = round_report_json(message.round_report)
    if message.finish_reason:
        fields["finish_reason"] = FINISH_REASON_NAMES[message.finish_reason]
        fields["usage"] = {
            "prompt_tokens": message.usage.prompt_tokens,
            "completion_tokens": message.usage.completion_tokens,
        }
        report = message.speculation_report
        fields["speculation_report"] = {
            field.name: list(value) if field.is_repeated else value
            for field in report.DESCRIPTOR.fields
            for value in [getattr(report, field.name)]
        }
    return fields


async def collected_choices(messages: Messages) -> list[generation_pb2.GenerateResponse]:
    """As `joined_choices`, of a stream read to its end; closed also where the reader gives up."""
    async with aclosing(messages):
        return joined_choices([message async for message in messages])


def joined_choices(
    messages: Iterable[generation_pb2.GenerateResponse],
) -> list[generation_pb2.GenerateResponse]:
    """All messages of a stream as one for each choice, in their order."""
    by_choice: dict[int, list[generation_pb2.GenerateResponse]] = {}
    for message in messages:
        by_choice.setdefault(message.choice, []).append(message)
    return [joined(by_choice[choice]) for choice in sorted(by_choice)]


def joined(messages: Iterable[generation_pb2.GenerateResponse]) -> generation_pb2.GenerateResponse:
    """All messages of a stream as one."""
    whole = generation_pb2.GenerateResponse()
    texts: list[str] = []
    accepted_count = 0
    for message in messages:
        texts.append(message.text)
        accepted_count += message.accepted_count
        whole.MergeFrom(message)
    whole.text = "".join(texts)
    whole.accepted_count = accepted_count
    return whole
