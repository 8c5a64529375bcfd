"""`transformers` `generate` in a process of its own, timed prompt by prompt on request.

So torch is not loaded in the client, and computes only while the service is idle. Lines of JSON go
in and out: `{"text", "max_new_tokens"}` and the fields of `Timing`. Knows nothing of services.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Self

from outrider.evaluation.plain_target import PlainTarget
from outrider.evaluation.throughput import Timing


class BaselineFailed(Exception):
    """The baseline's process ended."""


class Baseline:
    """The process while the context is open.

    Args:
        model: Folder or hub name.
        dtype: Of the model.
        threads: Threads of torch; 0: torch's own choice.
    """

    def __init__(self, model: str, dtype: str, threads: int) -> None:
        self._command = [sys.executable, "-m", __name__, model, dtype, str(threads)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.communicate()  # closes stdin, which ends it

    def time(self, text: str, max_new_tokens: int) -> Timing:
        """Generates one answer; the first call waits for the model.

        Raises:
            BaselineFailed: See the process's own words on stderr.
        """
        process = self._process
        assert process is not None, "the baseline has not been started"
        assert process.stdin is not None
        assert process.stdout is not None
        request = json.dumps({"text": text, "max_new_tokens": max_new_tokens})
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise BaselineFailed("the baseline's process has ended") from error
        line = process.stdout.readline()
        if not line:
            raise BaselineFailed("the baseline's process has ended")
        return Timing(**json.loads(line))


def main(model: str, dtype: str, threads: str) -> None:
    """Answers requests until stdin ends."""
    target = PlainTarget(model, int(threads), dtype)
    for line in sys.stdin:
        timing = target.timed(**json.loads(line))
        sys.stdout.write(json.dumps(asdict(timing)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
