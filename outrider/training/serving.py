"""The service that data is made with: a running one, or one that is started when first needed."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from outrider.evaluation.service import Service, ServiceOptions
from outrider.training.terminal import Terminal


class Serving:
    """Owns the started service until the context ends; starts none that nobody asks for.

    Args:
        target_name: What answers are filed under.
        address: host:port of a running gateway; empty: one is started.
        options: How to start one.
        streams: Requests at a time.
        method: Draft method; empty: the service's.
        terminal: Told of the start.
    """

    def __init__(
        self,
        target_name: str,
        address: str,
        options: ServiceOptions,
        streams: int,
        method: str,
        terminal: Terminal,
    ) -> None:
        self.target_name, self.streams, self.method = target_name, streams, method
        self._address, self._options, self._terminal = address, options, terminal
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def address(self) -> str:
        """Where to ask.

        Raises:
            ServiceFailed: It did not start.
        """
        if not self._address:
            self._terminal.say("starting a service of its own to ask")
            service = self._stack.enter_context(Service(self._options))
            self._address = service.address
        return self._address
