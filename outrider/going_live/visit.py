"""Goes through the go-live list at a running service, one step after the other.

Shell: owns the connections, the clock and the order. What is good or bad is said elsewhere.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import grpc.aio

from outrider.client import Model
from outrider.evaluation.client import AskFailed, ask
from outrider.evaluation.metrics_page import fetch_figures
from outrider.evaluation.prompts import Prompt
from outrider.going_live import figures, verdicts
from outrider.going_live.grpc_side import GrpcSide
from outrider.going_live.http_side import HttpSide
from outrider.going_live.lines import Line, failed, skipped
from outrider.going_live.measuring import TEXT, Measuring, request_of
from outrider.going_live.settings import CheckOptions

SETTLE_S = 5.0  # for what is still in use right after the last answer
POLL_S = 0.2
PROBE_TOKENS = 4
WRONG_KEY = "or-not-a-key-of-this-service"
BAD_FIELD = "sampling.temperature"
BAD_TEMPERATURE = -1.0


class Visit:
    """One visit.

    Args:
        options: What is checked.
        prompts: What may be asked.
        grpc_side: The gRPC listener.
        http_side: The HTTP listener; None: it is not looked at.
        on_progress: Told what is being done, and how much of it is done, 0 to 1.
    """

    def __init__(
        self,
        options: CheckOptions,
        prompts: Sequence[Prompt],
        grpc_side: GrpcSide,
        http_side: HttpSide | None,
        on_progress: Callable[[str, float], None],
    ) -> None:
        self._options, self._prompts = options, list(prompts)
        self._grpc, self._http = grpc_side, http_side
        self._on_progress = on_progress
        self._began = datetime.now(UTC)
        self._model: Model | None = None

    async def run(self, on_line: Callable[[Line], None]) -> list[Line]:
        """Goes through the list.

        Args:
            on_line: Told of each line as it is known.
        """
        lines: list[Line] = []

        def note(found: Sequence[Line]) -> None:
            lines.extend(found)
            for line in found:
                on_line(line)

        note(await self._step("reachable", self._reach))
        if self._model is None:
            why = "the service does not answer over gRPC"
            note([skipped("everything else", why), *await self._step("logs", self._logs)])
            return lines
        measuring = Measuring(
            self._options, self._prompts, self._model, self._grpc.stub, self._on_progress
        )
        before, unread = await self._read_pages()
        for name, step in (
            ("health", self._health),
            ("model", self._describe),
            ("errors", self._errors),
            ("streams over gRPC", self._grpc_stream),
            ("streams over HTTP", self._http_stream),
            ("exactness", measuring.exactness),
            ("speed", measuring.speed),
            ("load", measuring.load),
        ):
            note(await self._step(name, step))
        self._on_progress("resources", 0.0)
        note(figures.resource_lines(before, await self._settled(), unread))
        note(await self._step("logs", self._logs))
        return lines

    async def _step(self, name: str, step: Callable[[], Awaitable[list[Line]]]) -> list[Line]:
        self._on_progress(name, 0.0)
        try:
            return await step()
        except grpc.aio.AioRpcError as error:
            problem = f"{error.code().name}: {error.details()}"
        except (AskFailed, OSError, ValueError) as error:
            problem = str(error)
        return [failed(name, problem, "look at the services' logs")]

    async def _reach(self) -> list[Line]:
        problem = ""
        try:
            self._model = await self._grpc.model()
        except grpc.aio.AioRpcError as error:
            problem = f"{error.code().name}: {error.details()}"
        lines = [verdicts.reach_line("gRPC", self._options.address, problem)]
        if self._http is not None:
            lines.append(await self._reach_http(self._http))
        return lines

    async def _reach_http(self, http: HttpSide) -> Line:
        problem = ""
        try:
            await asyncio.to_thread(http.get, "/health")
        except (OSError, ValueError) as error:
            problem = str(error)
            self._http = None
        return verdicts.reach_line("HTTP", http.url, problem, self._options.is_http_guess)

    async def _health(self) -> list[Line]:
        status, reason, problem = None, "", ""
        by_grpc = await self._grpc.health()
        if self._http is not None:
            reply = await asyncio.to_thread(self._http.get, "/health")
            status, reason = reply.status, str(reply.body.get("reason", ""))
        try:
            await ask(self._grpc.stub, request_of(self._known_model, TEXT, "", PROBE_TOKENS))
        except AskFailed as error:
            problem = str(error)
        return [verdicts.health_line(verdicts.HealthSeen(by_grpc, status, reason, problem))]

    async def _describe(self) -> list[Line]:
        model, names = self._known_model, None
        if self._http is not None:
            reply = await asyncio.to_thread(self._http.get, "/v1/models")
            listed: list[Any] = reply.body.get("data", [])
            names = tuple(str(one.get("id")) for one in listed)
        seen = verdicts.ModelSeen(
            model.model, model.context_limit, model.methods, model.default_method, names
        )
        return verdicts.model_lines(seen, self._options.model)

    async def _errors(self) -> list[Line]:
        bad = request_of(self._known_model, TEXT, "", PROBE_TOKENS)
        bad.sampling.temperature = BAD_TEMPERATURE
        refusal = await self._grpc.refused(bad)
        lines = [verdicts.bad_field_line("gRPC", refusal, "INVALID_ARGUMENT", BAD_FIELD)]
        if self._http is not None:
            body = {"prompt": TEXT, "sampling": {"temperature": BAD_TEMPERATURE}}
            refusal = await asyncio.to_thread(self._http.refused, body)
            lines.append(verdicts.bad_field_line("HTTP", refusal, "400", BAD_FIELD))
        good = request_of(self._known_model, TEXT, "", 1)
        seen = {
            "without a key": await self._grpc.refused(good, ""),
            "with a wrong one": await self._grpc.refused(good, WRONG_KEY),
        }
        options = self._options
        return [*lines, verdicts.key_line(seen, bool(options.api_key), options.is_public)]

    async def _grpc_stream(self) -> list[Line]:
        request = request_of(self._known_model, TEXT, "none", self._options.max_new_tokens)
        request.limits.ignore_eos = True
        answer = await ask(self._grpc.stub, request)
        times = tuple(one - answer.asked_s for one in answer.message_s)
        return [verdicts.stream_line("gRPC", verdicts.StreamSeen(times, answer.report.rounds))]

    async def _http_stream(self) -> list[Line]:
        if self._http is None:
            return []
        body = {
            "prompt": TEXT,
            "limits": {"max_new_tokens": self._options.max_new_tokens, "ignore_eos": True},
            "speculation": {"method": "none"},
        }
        return [verdicts.stream_line("HTTP", await asyncio.to_thread(self._http.stream, body))]

    async def _read_pages(self) -> tuple[dict[str, float], list[str]]:
        """All pages summed, and those that cannot be read."""
        found: dict[str, float] = {}
        unread = []
        for url in self._options.pages:
            token = self._options.metrics_token
            try:
                page = await asyncio.to_thread(
                    fetch_figures, url, token, self._options.ssl_context()
                )
            except (OSError, ValueError) as error:
                unread.append(f"{url}: {error}")
                continue
            for name, value in page.items():
                found[name] = found.get(name, 0.0) + value
        return found, unread

    async def _settled(self) -> dict[str, float]:
        """Figures when nothing is in use any more, or when that takes too long."""
        end = time.monotonic() + SETTLE_S
        while True:
            found, _ = await self._read_pages()
            if time.monotonic() > end or not any(found.get(one) for one in figures.LEFT_BEHIND):
                return found
            await asyncio.sleep(POLL_S)

    async def _logs(self) -> list[Line]:
        seen = []
        for path in self._options.logs:
            text = await asyncio.to_thread(path.read_text, encoding="utf-8", errors="replace")
            seen.append(figures.log_seen(path.name, text, self._began))
        return figures.log_lines(seen)

    @property
    def _known_model(self) -> Model:
        assert self._model is not None
        return self._model
