"""The HTTP listener as a client sees it. Blocking; whoever has an event loop calls from a thread.

Decides nothing: what is good or bad is said in `verdicts.py`.
"""

import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from outrider.going_live.verdicts import Refusal, StreamSeen

TIMEOUT_S = 10.0
STREAM_TIMEOUT_S = 300.0  # between two reads


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: its status, and its body where that is a JSON object."""

    status: int
    body: dict[str, Any]


class HttpSide:
    """One HTTP listener.

    Args:
        url: Its root, without a slash at the end.
        api_key: Sent with each request; "": none.
        context: Of https; None: the system's.
    """

    def __init__(self, url: str, api_key: str, context: ssl.SSLContext | None) -> None:
        self.url, self._api_key, self._context = url.rstrip("/"), api_key, context

    def get(self, path: str) -> Reply:
        """Asks for a page.

        Raises:
            OSError: No HTTP listener answers there.
            ValueError: The address is none.
        """
        return self._ask(Request(self.url + path, headers=self._headers()))

    def refused(self, body: dict[str, Any]) -> Refusal:
        """How `POST /generate` refuses a body.

        Raises:
            OSError: No HTTP listener answers there.
        """
        reply = self._ask(self._post(body))
        error = reply.body.get("error")
        field = error.get("param") if isinstance(error, dict) else None
        return Refusal(str(reply.status), str(field or ""))

    def stream(self, body: dict[str, Any]) -> StreamSeen:
        """When the events of a stream come.

        Raises:
            OSError: It is not answered to its end.
            ValueError: What came is no stream of ours.
        """
        start = time.monotonic()
        times: list[float] = []
        rounds = 0
        request = self._post({**body, "stream": True})
        with urlopen(request, timeout=STREAM_TIMEOUT_S, context=self._context) as answer:
            for line in answer:
                data = line.decode().strip().removeprefix("data:").strip()
                if not data or data == "[DONE]":
                    continue
                message = json.loads(data)
                if "error" in message:
                    raise ValueError(str(message["error"]))
                if message.get("token_ids"):
                    times.append(time.monotonic() - start)
                rounds = message.get("speculation_report", {}).get("rounds", rounds)
        return StreamSeen(tuple(times), rounds)

    def _ask(self, request: Request) -> Reply:
        try:
            with urlopen(request, timeout=TIMEOUT_S, context=self._context) as answer:
                return Reply(answer.status, _object(answer.read()))
        except HTTPError as error:  # any status that is not one of success
            with error:
                return Reply(error.code, _object(error.read()))

    def _post(self, body: dict[str, Any]) -> Request:
        headers = self._headers() | {"Content-Type": "application/json"}
        return Request(self.url + "/generate", json.dumps(body).encode(), headers, method="POST")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
