"""What a router asks, as the request that our own API carries. Policy: plain messages.

Ranges are the business of `gateway/requests.py`. Zero is "not set" where the other API has no word
for that; fields that would change the answer and mean nothing here are refused by name.
"""

import json
import re

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.protocol.errors import InvalidField, NotSupported
from outrider.v1 import decoding_pb2, generation_pb2

DEFAULT_TEMPERATURE = 1.0  # the engine's, where the rest of this service is greedy
ANY_OBJECT = json.dumps({"type": "object"})

_PARAMS = "sampling_params"
_UNKNOWN_INPUTS = ("mm_inputs", "extra_mm_inputs", "media_refs")
_UNKNOWN_TRANSFERS = ("kv_transfer_params", "kv_transfer_params_json")


def to_request(request: vllm_engine_pb2.GenerateRequest) -> generation_pb2.GenerateRequest:
    """Translates a request.

    Raises:
        NotSupported: It needs something that is not done here.
        InvalidField: A field has no value that means anything.
    """
    for name in (*_UNKNOWN_INPUTS, *_UNKNOWN_TRANSFERS):
        if _is_set(request, name):
            raise NotSupported(name, "is not done here: text only, and no KV rows of others")
    params = request.sampling_params
    ours = generation_pb2.GenerateRequest(
        sampling=_sampling(params),
        limits=_limits(params),
        n=params.n,
        request_id=request.request_id,
    )
    match request.WhichOneof("input"):
        case "tokenized":
            ours.token_ids.ids.extend(request.tokenized.input_ids)
        case "text":
            ours.prompt = request.text
        case None:
            raise InvalidField("input", "one of tokenized and text is needed")
    _want_log_probs(ours, params)
    return ours


def _sampling(params: vllm_engine_pb2.SamplingParams) -> decoding_pb2.Sampling:
    sampling = decoding_pb2.Sampling(
        temperature=params.temperature if params.HasField("temperature") else DEFAULT_TEMPERATURE,
        min_p=params.min_p,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
    )
    if params.top_p:
        sampling.top_p = params.top_p
    if params.top_k:
        sampling.top_k = params.top_k
    if params.repetition_penalty:
        sampling.repetition_penalty = params.repetition_penalty
    if params.HasField("seed"):
        sampling.seed = _not_negative(f"{_PARAMS}.seed", params.seed)
    for token_id, bias in params.logit_bias.items():
        sampling.logit_bias[_not_negative(f"{_PARAMS}.logit_bias", token_id)] = bias
    grammar = _grammar(params)
    if grammar is not None:
        sampling.grammar.CopyFrom(grammar)
    return sampling


def _limits(params: vllm_engine_pb2.SamplingParams) -> generation_pb2.Limits:
    for name in ("include_stop_str_in_output", "truncate_prompt_tokens", "prompt_logprobs"):
        if _is_set(params, name):
            raise NotSupported(f"{_PARAMS}.{name}", "is not done here")
    limits = generation_pb2.Limits(
        stop=params.stop,
        stop_token_ids=params.stop_token_ids,
        ignore_eos=params.ignore_eos,
        min_new_tokens=params.min_tokens,
    )
    if params.HasField("max_tokens"):
        limits.max_new_tokens = params.max_tokens
    return limits


def _grammar(params: vllm_engine_pb2.SamplingParams) -> decoding_pb2.Grammar | None:
    match params.WhichOneof("constraint"):
        case "json_schema":
            return decoding_pb2.Grammar(json_schema=params.json_schema)
        case "regex":
            return decoding_pb2.Grammar(regex=params.regex)
        case "grammar":
            return decoding_pb2.Grammar(lark=params.grammar)
        case "json_object":
            return decoding_pb2.Grammar(json_schema=ANY_OBJECT) if params.json_object else None
        case "choice":
            return decoding_pb2.Grammar(regex=_one_of(params.choice.choices))
        case "structural_tag":
            raise NotSupported(f"{_PARAMS}.structural_tag", "is not done here")
    return None


def _one_of(choices: list[str]) -> str:
    if not choices:
        raise InvalidField(f"{_PARAMS}.choice", "at least one choice is needed")
    return "|".join(re.escape(choice) for choice in choices)


def _want_log_probs(
    ours: generation_pb2.GenerateRequest, params: vllm_engine_pb2.SamplingParams
) -> None:
    if params.HasField("logprobs"):
        ours.logprobs = True
        ours.top_logprobs = _not_negative(f"{_PARAMS}.logprobs", params.logprobs)


def _not_negative(name: str, number: int) -> int:
    if number < 0:
        raise InvalidField(name, f"must not be negative (got {number})")
    return number


def _is_set(message: object, name: str) -> bool:
    return any(field.name == name for field, _ in message.ListFields())  # type: ignore[attr-defined]
