"""Looks at a verify worker's metrics page now and then: how full its KV pool gets."""

import threading

from outrider.evaluation.metrics_page import read_figures

LOOK_EVERY_S = 0.25


class MetricsKvWatch:
    """Asks the page from a thread.

    Args:
        port: Of the page, on this machine; 0: there is none to look at.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._peak: float | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Starts looking."""
        self._peak = None
        self._stop.clear()
        if self._port:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def peak(self) -> float | None:
        """Stops, and says how much of the pool was in use at most, 0 to 1; None: not known."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._peak

    def _watch(self) -> None:
        while True:
            share = self._look()
            if share is not None:
                self._peak = max(share, self._peak or 0.0)
            if self._stop.wait(LOOK_EVERY_S):
                return

    def _look(self) -> float | None:
        values = read_figures(self._port)
        total = values.get("outrider_kv_blocks_total", 0.0)
        return values.get("outrider_kv_blocks_in_use", 0.0) / total if total else None
