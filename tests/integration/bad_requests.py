"""Bad requests and their verdicts, the same over gRPC and HTTP.

What a case lacks on one protocol cannot be said there: protobuf has no negative lengths, and only
OpenAI's routes name a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from outrider.protocol.logit_rules import MAX_LISTED
from outrider.v1 import decoding_pb2, generation_pb2
from tests.integration.gateway_stage import (
    limits,
    prompt,
)

CHAT, TEXT, OWN = "/v1/chat/completions", "/v1/completions", "/generate"
CONTEXT, VOCAB = 512, 300
MAX_BYTES = 2**20
OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
TOO_LARGE = grpc.StatusCode.RESOURCE_EXHAUSTED
HTTP_STATUS = {OK: 200, INVALID: 400, UNIMPLEMENTED: 501, TOO_LARGE: 413}


@dataclass(frozen=True)
class Case:
    """One bad input.

    Args:
        name: Number in the list, and what it is.
        field: That the gRPC error names; None: gRPC is not asked, "": no field is named.
        request: Over gRPC, whole or as bytes.
        bodies: Over HTTP: route, body and the `param` that its error names.
        code: The verdict.
    """

    name: str
    field: str | None = None
    request: generation_pb2.GenerateRequest | bytes | None = None
    bodies: Sequence[tuple[str, Any, str | None]] = ()
    code: grpc.StatusCode = INVALID

    @property
    def sessions(self) -> int:
        """How many get to a worker: those that are answered, and with more than nothing."""
        if self.code is not OK or "max_new_tokens = 0" in self.name:
            return 0
        return (self.field is not None) + len(self.bodies)


def sampling(**fields: Any) -> generation_pb2.GenerateRequest:
    return prompt(sampling=decoding_pb2.Sampling(**fields))


def own(param: str, **fields: Any) -> tuple[str, Any, str | None]:
    return OWN, {"prompt": "x", **fields}, param


def chat(param: str | None, **fields: Any) -> tuple[str, Any, str | None]:
    messages = [{"role": "user", "content": "x"}]
    return CHAT, {"model": "tiny", "messages": messages, **fields}, param


def text(param: str | None, **fields: Any) -> tuple[str, Any, str | None]:
    return TEXT, {"model": "tiny", "prompt": "x", **fields}, param


def both(name: str, group: str, key: str, *values: Any, openai: bool = True) -> list[Case]:
    """A value of a field of `sampling` or `limits`, on all routes."""
    theirs = {"max_new_tokens": "max_tokens", "min_new_tokens": "min_tokens"}.get(key, key)
    cases = []
    for value in values:
        message = {"sampling": decoding_pb2.Sampling, "limits": generation_pb2.Limits}[group]
        bodies = [own(f"{group}.{key}", **{group: {key: value}})]
        if openai:
            bodies.append(chat(theirs, **{theirs: value}))
        request = prompt(**{group: message(**{key: value})})
        cases.append(Case(f"{name} = {value}", f"{group}.{key}", request, bodies))
    return cases


def json_only(name: str, param: str, *values: Any, route: Any = own, **more: Any) -> list[Case]:
    """Values of a field that protobuf cannot hold."""
    top, _, key = param.partition(".")
    fields = [{top: {key: value}} if key else {top: value} for value in values]
    return [Case(f"{name} = {one}", bodies=[route(param, **one, **more)]) for one in fields]


def conversation(*messages: tuple[str, str]) -> generation_pb2.GenerateRequest:
    chat = generation_pb2.Chat()
    for role, content in messages:
        chat.messages.add(role=role, content=content)
    return generation_pb2.GenerateRequest(chat=chat)


def token_ids(*ids: int) -> generation_pb2.GenerateRequest:
    return generation_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(ids=ids))


def grammar(kind: str, value: str, shown: str) -> Case:
    return Case(
        f"25 {shown}",
        f"sampling.grammar.{kind}",
        sampling(grammar=decoding_pb2.Grammar(**{kind: value})),
        [own(f"sampling.grammar.{kind}", sampling={"grammar": {kind: value}})],
    )


def ids_in_json(*ids: int) -> tuple[str, Any, str | None]:
    return OWN, {"token_ids": list(ids)}, f"token_ids[{len(ids) - 1}]"


MANY_BIASES = dict.fromkeys(range(MAX_LISTED + 1), 1.0)
DEEP_SCHEMA = '{"not":' * 100_000 + "{}" + "}" * 100_000

CASES: list[Case] = [
    Case("1 nothing", "prompt", generation_pb2.GenerateRequest(), [(OWN, {}, "prompt")]),
    Case("1 empty prompt", "prompt", prompt(""), [(OWN, {"prompt": ""}, "prompt")]),
    Case("1 empty for OpenAI", bodies=[text("prompt", prompt=""), text("prompt", prompt=[])]),
    Case("1 no ids", "token_ids.ids", token_ids(), [(OWN, {"token_ids": []}, "token_ids")]),
    Case("2 two inputs", bodies=[own("body", token_ids=[1])]),
    Case("3 id beyond", "token_ids.ids[1]", token_ids(1, VOCAB), [ids_in_json(1, VOCAB)]),
    Case("3 for OpenAI", bodies=[text("prompt[1]", prompt=[1, VOCAB])]),
    Case("4 id = 2**31", "token_ids.ids[0]", token_ids(2**31), [ids_in_json(2**31)]),
    Case("4 id = -1", bodies=[ids_in_json(-1)]),
    Case("4 id = 2**63 - 1", bodies=[ids_in_json(2**63 - 1)]),
    Case(
        "5 prompt = context + 1",
        "prompt",
        prompt("x" * (CONTEXT + 1)),
        [own("prompt", prompt="x" * (CONTEXT + 1)), text("prompt", prompt="x" * (CONTEXT + 1))],
    ),
    Case(
        "6 prompt = context",
        "prompt",
        prompt("x" * CONTEXT),
        [own("prompt", prompt="x" * CONTEXT)],
    ),
    Case(
        "7 prompt + max_new_tokens = context + 1",
        "limits.max_new_tokens",
        prompt("x" * 12, limits=limits(max_new_tokens=501)),
        [
            own("limits.max_new_tokens", prompt="x" * 12, max_new_tokens=501),
            text("max_tokens", prompt="x" * 12, max_tokens=501),
        ],
    ),
    Case(
        "8 max_new_tokens = 0",
        "",
        prompt(limits=limits(max_new_tokens=0)),
        [own("", max_new_tokens=0), text("", max_tokens=0)],
        OK,
    ),
    *both("9 max_new_tokens", "limits", "max_new_tokens", 2**32 - 1),
    *json_only("9 max_new_tokens", "max_new_tokens", -1, 2**63 - 1, 1.5, "5", True),
    Case(
        "10 min_new_tokens above max_new_tokens",
        "limits.min_new_tokens",
        prompt(limits=limits(max_new_tokens=4, min_new_tokens=5)),
        [own("limits.min_new_tokens", limits={"max_new_tokens": 4, "min_new_tokens": 5})],
    ),
    *both("11 temperature", "sampling", "temperature", -0.1, 1e9),
    Case("11 NaN", "sampling.temperature", sampling(temperature=float("nan"))),
    Case("11 inf", "sampling.temperature", sampling(temperature=float("inf"))),
    Case("11 1e308", bodies=[own("sampling.temperature", temperature=1e308)]),
    *json_only("11 temperature", "temperature", "1", True),
    Case("12 temperature = 1e-9", "", sampling(temperature=1e-9), [own("", temperature=1e-9)], OK),
    *both("13 top_p", "sampling", "top_p", 0.0, -1.0, 1.0001),
    Case("13 NaN", "sampling.top_p", sampling(top_p=float("nan"))),
    *json_only("14 top_k", "sampling.top_k", -5),
    Case("14 top_k = 10**9", "", sampling(top_k=10**9), [own("", sampling={"top_k": 10**9})], OK),
    Case("15 n = 17", "n", prompt(n=17), [own("n", n=17), chat("n", n=17)]),
    Case("15 n = 2**32 - 1", "n", prompt(n=2**32 - 1), [own("n", n=2**32 - 1)]),
    *json_only("15 n", "n", 0, -1, 2**63 - 1),
    *json_only("15 n", "n", 0, -1, 2**63 - 1, route=text),
    Case("16 best_of", bodies=[text("best_of", best_of=2)], code=UNIMPLEMENTED),
    Case("16 best_of < n", bodies=[text("best_of", best_of=1, n=2)], code=UNIMPLEMENTED),
    *json_only("17 seed", "seed", 2**64, -1, "abc"),
    *json_only("17 seed", "seed", 2**64, -1, "abc", route=chat),
    *both("18 stop", "limits", "stop", ["a"] * 5),
    Case(
        "18 stop of 10 KiB",
        "limits.stop[1]",
        prompt(limits=limits(stop=["a", "x" * 10240])),
        [own("limits.stop[1]", limits={"stop": ["a", "x" * 10240]})],
    ),
    Case(
        "18 empty stop",
        "limits.stop[0]",
        prompt(limits=limits(stop=[""])),
        [own("limits.stop[0]", limits={"stop": [""]}), chat("stop[0]", stop="")],
    ),
    *both("20 too many biases", "sampling", "logit_bias", MANY_BIASES, openai=False),
    Case(
        "20 bias of an unknown token",
        "sampling.logit_bias[0]",
        sampling(logit_bias={VOCAB: 1.0}),
        [own("sampling.logit_bias[0]", sampling={"logit_bias": {str(VOCAB): 1.0}})],
    ),
    Case(
        "20 bias = 1e9",
        "sampling.logit_bias[5]",
        sampling(logit_bias={5: 1e9}),
        [own("sampling.logit_bias[5]", sampling={"logit_bias": {"5": 1e9}})],
    ),
    Case("20 NaN", "sampling.logit_bias[5]", sampling(logit_bias={5: float("nan")})),
    *json_only("20 key", "sampling.logit_bias", {"a": 1}, {"-1": 1}, {str(2**32): 1}),
    Case(
        "21 all tokens banned",
        "sampling.banned_token_ids",
        sampling(banned_token_ids=range(VOCAB)),
        [own("sampling.banned_token_ids", sampling={"banned_token_ids": list(range(VOCAB))})],
    ),
    Case(
        "22 top_logprobs = 21",
        "top_logprobs",
        prompt(logprobs=True, top_logprobs=21),
        [
            own("top_logprobs", logprobs=True, top_logprobs=21),
            chat("top_logprobs", logprobs=True, top_logprobs=21),
        ],
    ),
    *json_only("22 top_logprobs", "top_logprobs", -1, 2**32, logprobs=True),
    *json_only("23 prompt_logprobs", "prompt_logprobs", 1),
    *both("24 presence_penalty", "sampling", "presence_penalty", 3.0),
    *both("24 frequency_penalty", "sampling", "frequency_penalty", -2.5),
    *both("24 repetition_penalty", "sampling", "repetition_penalty", 0.0),
    Case("24 NaN", "sampling.presence_penalty", sampling(presence_penalty=float("nan"))),
    grammar("json_schema", "", "empty schema"),
    grammar("json_schema", "[1]", "schema that is no object"),
    grammar("json_schema", "{", "schema that is no JSON"),
    grammar("json_schema", DEEP_SCHEMA[: 64 * 2**10], "schema that is cut off in the depth"),
    grammar("json_schema", DEEP_SCHEMA, "schema of 800 KB"),
    grammar("regex", "(a|b)" * 20_000, "regular expression of 100 KB"),
    Case("25 no kind", "sampling.grammar", sampling(grammar=decoding_pb2.Grammar())),
    Case("25 two kinds", bodies=[own("sampling.grammar", sampling={"grammar": {}})]),
    *json_only("28 model", "model", "a\x00b", "x" * 300_000, "a\nb", route=text),
    *json_only("29 template", "chat_template", "{{ 1 }}"),
    *json_only("29 template", "chat_template", "{{ 1 }}", route=chat),
    *json_only("29 template", "chat_template_kwargs", {"chat_template": "x"}, route=chat),
    *json_only("29 template", "chat_template", "{{ 1 }}", route=text),
    Case(
        "30 no messages",
        "chat.messages",
        conversation(),
        [(OWN, {"chat": []}, "chat"), chat("messages", messages=[])],
    ),
    Case(
        "30 unknown role",
        "chat.messages[0].role",
        conversation(("robot", "x")),
        [
            (OWN, {"chat": [{"role": "robot", "content": ""}]}, "chat[0].role"),
            chat("messages[0].role", messages=[{"role": "robot", "content": ""}]),
        ],
    ),
    Case(
        "30 content null",
        bodies=[(OWN, {"chat": [{"role": "user", "content": None}]}, "chat[0].content")],
    ),
    Case(
        "30 many messages",
        "chat.messages",
        conversation(*[("user", "")] * 20_000),
        [(OWN, {"chat": [{"role": "user", "content": ""}] * 20_000}, "chat")],
    ),
    Case(
        "30 many characters",
        "prompt",
        prompt("x" * 20_001),
        [own("prompt", prompt="x" * 20_001)],
    ),
    Case(
        "30 more bytes than a request may have",
        "",
        conversation(("user", "x" * (MAX_BYTES + 1))),
        [(OWN, {"chat": [{"role": "user", "content": "x" * (MAX_BYTES + 1)}]}, None)],
        TOO_LARGE,
    ),
    Case(
        "31 special tokens in a message",
        "",
        conversation(("user", "<|im_end|><|endoftext|>")),
        [(OWN, {"chat": [{"role": "user", "content": "<|im_end|><|endoftext|>"}]}, "")],
        OK,
    ),
    Case("32 no UTF-8", "request", b"\x0a\x02\xff\xfe", [(OWN, b'{"prompt": "\xff"}', "body")]),
    Case("32 half a pair", bodies=[(OWN, b'{"prompt": "\\ud800"}', "request")]),
    Case("32 NUL, U+202E", "", prompt("a\x00\u202e"), [own("", prompt="a\x00\u202e")], OK),
    Case("33 request_id", "request_id", prompt(request_id="x" * 65_536)),
    Case(
        "33 CRLF in request_id",
        "request_id",
        prompt(request_id="a\r\nb"),
        [own("request_id", request_id="a\r\nb")],
    ),
    Case(
        "33 long cache_salt",
        "cache_salt",
        prompt(cache_salt="x" * 65),
        [own("cache_salt", cache_salt="x" * 65)],
    ),
    Case(
        "33 CRLF in cache_salt",
        "cache_salt",
        prompt(cache_salt="a\r\nb"),
        [chat("cache_salt", cache_salt="a\r\nb")],
    ),
    *json_only("33 user", "user", "x" * 65_536, "a\r\nb", route=chat),
    Case(
        "35 max_nodes",
        "speculation.max_nodes",
        prompt(speculation=decoding_pb2.Speculation(max_nodes=10**6)),
        [own("speculation.max_nodes", speculation={"max_nodes": 10**6})],
    ),
    Case(
        "35 depth = 0",
        "speculation.depth",
        prompt(speculation=decoding_pb2.Speculation(depth=0)),
        [chat("speculation.depth", speculation={"depth": 0})],
    ),
    *json_only("35 depth", "speculation.depth", -1),
    Case("38 unknown in protobuf", "", prompt().SerializeToString() + b"\xfa\x3f\x01x", code=OK),
    *json_only("38 unknown", "surprise", 1),
    *json_only("38 unknown", "x" * 64, 1, route=chat),
    *json_only("38 unknown in a group", "sampling.surprise", 1),
]
