import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from outrider.telemetry.logging import setup_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    for name in ("outrider", "gateway", "draft_service", "verify_service"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_record_is_one_line_with_time_level_service_logger_and_message() -> None:
    stream = io.StringIO()
    setup_logging("verify", "info", stream)
    logging.getLogger("verify_service.worker").warning("%d sessions freed", 3)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning verify verify_service\.worker: "
        r"3 sessions freed\n",
        stream.getvalue(),
    )


def test_a_line_break_in_a_message_cannot_forge_a_record() -> None:
    stream = io.StringIO()
    setup_logging("gateway", "info", stream)
    logging.getLogger("gateway").info("request %s ended", "a\r\n2026-01-01 error gateway: forged")
    assert stream.getvalue().count("\n") == 1
    assert r"request a\r\n2026" in stream.getvalue()


def test_an_exception_and_its_cause_fold_into_the_line() -> None:
    stream = io.StringIO()
    setup_logging("draft", "info", stream)
    try:
        try:
            raise KeyError("row")
        except KeyError as error:
            raise ValueError("two\nlines") from error
    except ValueError:
        logging.getLogger("outrider").exception("round failed")
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert re.search(
        r"round failed \| ValueError: two\\nlines at .*test_logging\.py:\d+ test_an_exception\w+ "
        r"\| KeyError: 'row' at ",
        line,
    )


def test_json_is_one_object_a_line_with_the_same_parts() -> None:
    stream = io.StringIO()
    setup_logging("draft", "info", stream, log_format="json")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("outrider").exception('über "%s"', "round 3")
    text = stream.getvalue()
    assert text.count("\n") == 1
    line = json.loads(text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    message = line.pop("message")
    assert message.startswith('über "round 3" | ValueError: two\nlines at ')
    assert line == {"level": "error", "service": "draft", "logger": "outrider"}


def test_debug_shows_our_loggers_but_not_those_of_libraries() -> None:
    stream = io.StringIO()
    setup_logging("gateway", "DEBUG", stream)
    logging.getLogger("gateway.router").debug("ours")
    logging.getLogger("asyncio").debug("theirs")
    assert "ours" in stream.getvalue()
    assert "theirs" not in stream.getvalue()


def test_setting_up_twice_writes_each_record_once() -> None:
    first, second = io.StringIO(), io.StringIO()
    setup_logging("gateway", "info", first)
    setup_logging("gateway", "info", second)
    logging.getLogger("gateway").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_an_unknown_level_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"one of debug, info, warning, error, got 'loud'"):
        setup_logging("gateway", "loud")
