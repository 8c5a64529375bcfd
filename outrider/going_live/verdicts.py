"""What the answers of a service say about it: reachable, truthful, streaming, exact, strict.

Policy: observations in, lines out. Knows no socket and no clock; "" stands for "no problem".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.going_live.lines import Line, failed, passed, skipped, warned

LEAST_SPREAD = 0.25  # of a stream's time, between its first and its last message
LEAST_ROUNDS = 4  # fewer say nothing about how messages are spread
TEMPLATE_TOKENS = 64
SERVING = "SERVING"


@dataclass(frozen=True, slots=True)
class HealthSeen:
    """What the service says of itself, and whether that is so.

    Args:
        grpc: Status by the gRPC health service, by its name there; "" where it did not answer.
        http: Status of GET /health; None: HTTP is not looked at.
        reason: What /health gives as its reason; "" where it gives none.
        request_problem: Why a request failed, or "".
    """

    grpc: str
    http: int | None
    reason: str
    request_problem: str


@dataclass(frozen=True, slots=True)
class ModelSeen:
    """What is served.

    Args:
        name: As GetModel says.
        context_limit: Tokens.
        methods: Draft methods.
        default_method: Of them.
        http_names: Of GET /v1/models; None: HTTP is not looked at.
    """

    name: str
    context_limit: int
    methods: tuple[str, ...]
    default_method: str
    http_names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """When the messages of one stream came.

    Args:
        message_s: Of each message with tokens, seconds since the request.
        rounds: Rounds of the service, of each of which one message is to come.
    """

    message_s: tuple[float, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Ids of one request, plainly decoded and with speculation.

    Args:
        prompt: Name of the prompt.
        plain: By plain decoding.
        drafted: By the service's own draft method.
    """

    prompt: str
    plain: tuple[int, ...]
    drafted: tuple[int, ...]

    @property
    def is_equal(self) -> bool:
        """True where not one token differs."""
        return self.plain == self.drafted

    @property
    def place(self) -> int:
        """Where they part, from 0."""
        both = zip(self.plain, self.drafted, strict=False)
        shorter = min(len(self.plain), len(self.drafted))
        return next((i for i, (one, other) in enumerate(both) if one != other), shorter)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a request was refused that had to be.

    Args:
        status: gRPC status or HTTP status, as text; "OK" where it was answered.
        field: The field that was named, or "".
    """

    status: str
    field: str = ""


def fits(text: str, context_limit: int, max_new_tokens: int) -> bool:
    """True where a prompt leaves room for its answer, whatever the tokenizer: no token is shorter
    than a byte, and a chat template adds less than TEMPLATE_TOKENS."""
    return len(text.encode()) <= context_limit - max_new_tokens - TEMPLATE_TOKENS


def reach_line(protocol: str, address: str, problem: str, is_guess: bool = False) -> Line:
    """Whether a listener answers.

    Args:
        protocol: gRPC or HTTP.
        address: Where.
        problem: Why not, or "".
        is_guess: True: nobody has named this address.
    """
    name = f"reachable over {protocol}"
    if not problem:
        return passed(name, address)
    if is_guess:
        return warned(name, f"{address}: {problem}", "name it with --http URL, or --http none")
    return failed(
        name,
        f"{address}: {problem}",
        "look at the gateway's log, its host and port settings, and what lies between",
    )


def health_line(seen: HealthSeen) -> Line:
    """Whether health is good, and the truth."""
    name = "health is good, and true"
    http = "" if seen.http is None else f", /health {seen.http}"
    figure = f"gRPC {seen.grpc or 'no answer'}{http}, a request "
    figure += f"failed: {seen.request_problem}" if seen.request_problem else "succeeded"
    says_well = seen.grpc == SERVING
    agree = seen.http is None or (seen.http == 200) == says_well
    if not agree:
        return failed(name, figure, "the two listeners are not of one gateway, or a proxy answers")
    if says_well and seen.request_problem:
        return failed(name, figure, "health says yes and requests fail: look at the gateway's log")
    if not says_well:
        reason = f" ({seen.reason})" if seen.reason else ""
        advice = "wait until it is ready; the gateway's log says what it waits for"
        return failed(name, figure + reason, advice)
    return passed(name, figure)


def model_lines(seen: ModelSeen, expected: str) -> list[Line]:
    """What is served, and whether both listeners serve the same.

    Args:
        seen: What they say.
        expected: The name that it should have; "": any.
    """
    name = "model"
    figure = f"{seen.name}, context {seen.context_limit}, methods {', '.join(seen.methods)}"
    if expected and seen.name != expected:
        lines = [failed(name, figure, f"it should be {expected}: look at the --model settings")]
    elif seen.http_names is not None and seen.name not in seen.http_names:
        others = ", ".join(seen.http_names) or "nothing"
        lines = [
            failed(name, f"{figure}; over HTTP {others}", "the listeners are not of one gateway")
        ]
    else:
        lines = [passed(name, figure)]
    if seen.default_method == "none":
        advice = "give it a head, a draft model, or --default-method ngram"
        return [*lines, warned("speculation", "off by default", advice)]
    return [*lines, passed("speculation", f"{seen.default_method} by default")]


def stream_line(protocol: str, seen: StreamSeen) -> Line:
    """Whether tokens arrive one round after the other, and not in one lump."""
    name = f"streams over {protocol}"
    times = seen.message_s
    figure = f"{len(times)} messages for {seen.rounds} rounds"
    if seen.rounds < LEAST_ROUNDS:
        return skipped(name, f"{figure}: too few to say", "ask for more with --max-new-tokens")
    spread = (times[-1] - times[0]) / times[-1] if times and times[-1] > 0 else 0.0
    figure += f", over {spread:.0%} of its time"
    if len(times) < seen.rounds / 2 or spread < LEAST_SPREAD:
        return failed(name, figure, "a proxy in between collects answers: turn its buffering off")
    return passed(name, figure)


def exact_line(name: str, pairs: Sequence[Pair], allowed: int) -> Line:
    """Whether speculation changes no token.

    Args:
        name: How tokens were chosen.
        pairs: Of all prompts.
        allowed: How many may differ.
    """
    name = f"same tokens with and without speculation, {name}"
    differing = [pair for pair in pairs if not pair.is_equal]
    tokens = sum(len(pair.drafted) for pair in pairs)
    if not tokens:
        return skipped(name, "no answer has a token", "ask for more with --max-new-tokens")
    figure = f"{len(pairs) - len(differing)} of {len(pairs)} answers equal, {tokens} tokens"
    if not differing:
        return passed(name, figure)
    first = differing[0]
    figure += f"; {first.prompt} differs from token {first.place}"
    if len(differing) <= allowed:
        return warned(name, figure, f"{allowed} may differ (--differing)")
    return failed(
        name,
        figure,
        "in bfloat16 or float16 near-ties may fall either way (say how many with --differing); "
        "in float32 this is a fault: run `outrider exactness`",
    )


def bad_field_line(protocol: str, seen: Refusal, status: str, field: str) -> Line:
    """Whether a bad value is refused by its name.

    Args:
        protocol: gRPC or HTTP.
        seen: What came.
        status: What had to come.
        field: What had to be named.
    """
    name = f"a bad value is refused over {protocol}"
    figure = f"{seen.status}, names {seen.field or 'no field'}"
    if (seen.status, seen.field) == (status, field):
        return passed(name, figure)
    return failed(
        name, figure, f"{status} that names {field} was expected: is it a gateway of ours?"
    )


def key_line(seen: dict[str, Refusal], has_key: bool, is_public: bool) -> Line:
    """Whether strangers are refused.

    Args:
        seen: What came without a key and with a wrong one, each by its name.
        has_key: A key was given.
        is_public: The service is asked beyond this machine.
    """
    name = "strangers are refused"
    figure = ", ".join(f"{what}: {refusal.status}" for what, refusal in seen.items())
    if all(refusal.status == "UNAUTHENTICATED" for refusal in seen.values()):
        return passed(name, figure)
    if has_key:
        return failed(name, figure, "a key was given but is not needed: set --api-keys")
    advice = "set --api-keys (`outrider keys`), and give a key with --key"
    if is_public:
        return warned(name, f"whoever reaches it may ask; {figure}", advice)
    return skipped(name, "keys are off", advice)
