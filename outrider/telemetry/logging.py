"""Log lines: one per record on stderr, with time, level, service, logger and message.

As text for people, or as JSON for what collects logs. Refuses to know what is logged. A traceback
is folded into its record's line, so that lines of several processes on one terminal stay whole and
nobody can forge one with a line break.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

LogFormat = Literal["text", "json"]

LEVELS: Final = ("debug", "info", "warning", "error")

_OUR_LOGGERS = ("outrider", "gateway", "draft_service", "verify_service")


def check_level(level: str) -> str:
    """Refuses a level that does not exist.

    Args:
        level: A name of LEVELS, in any case.

    Returns:
        The name in lower case.

    Raises:
        ValueError: The name is none of them; the message lists them.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}, got {level!r}")
    return level.lower()


def setup_logging(
    service: str, level: str, stream: TextIO | None = None, *, log_format: LogFormat = "text"
) -> None:
    """Sends every record of this process to one handler; calling it again replaces that handler.

    Args:
        service: Name that stands in each line, such as "verify".
        level: Lowest level of our own loggers, a name of LEVELS. Libraries stay at "info" or above.
        stream: Where lines go; stderr where it is None.
        log_format: "text" for people, "json": one object a line.

    Raises:
        ValueError: As `check_level`.
    """
    number = logging.getLevelNamesMapping()[check_level(level).upper()]
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter((JsonFormatter if log_format == "json" else LineFormatter)(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.INFO))
    for name in _OUR_LOGGERS:
        logging.getLogger(name).setLevel(number)
    logging.captureWarnings(True)


class _ServiceFormatter(logging.Formatter):
    """Knows whose records it formats.

    Args:
        service: Name of the process.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service


class LineFormatter(_ServiceFormatter):
    """Formats a record as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a line break at its end or anywhere else."""
        message = _message(record).replace("\r", "\\r").replace("\n", "\\n")
        level = record.levelname.lower()
        return f"{_time(record)} {level:<7} {self._service} {record.name}: {message}"


class JsonFormatter(_ServiceFormatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, with the parts of a text line under their names."""
        parts = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": _message(record),
        }
        return json.dumps(parts, ensure_ascii=False)


def origin(error: BaseException) -> str:
    """What an error is and where it was raised, its causes too, but not a word of their texts.

    For errors that come out of a request: their text may quote the prompt.
    """
    return " | ".join(_fold_exception(error, shows_text=False))


def _time(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return f"{time.removesuffix('+00:00')}Z"


def _message(record: logging.LogRecord) -> str:
    parts = [record.getMessage()]
    if record.exc_info and record.exc_info[1] is not None:
        parts += _fold_exception(record.exc_info[1])
    return " | ".join(parts)


def _fold_exception(error: BaseException, shows_text: bool = True) -> Iterator[str]:
    """The error and its causes, each with its frames from the innermost outwards."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        frames = traceback.extract_tb(cause.__traceback__)
        where = " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames))
        text = f": {cause}" if shows_text else ""
        yield f"{type(cause).__name__}{text}" + (f" at {where}" if where else "")
        hidden = None if cause.__suppress_context__ else cause.__context__
        cause = cause.__cause__ or hidden
