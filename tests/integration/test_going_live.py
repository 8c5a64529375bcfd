"""`outrider check` at services on real sockets: all well, and broken in each way it looks for."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outrider.going_live.check import EXIT_FAILED, EXIT_NOT_RUN, main
from outrider.going_live.lines import Verdict
from outrider.supervision.ports import free_port
from tests.integration.going_live_stage import Faults, grpc_half, http_half

KEY = "or-right"
QUICK = ["--prompts", "2", "--max-new-tokens", "12", "--rate", "100", "--seconds", "0.1"]


@contextmanager
def served(faults: Faults) -> Iterator[tuple[str, str]]:
    """A service in a thread of its own; yields its gRPC address and its HTTP root."""
    loop = asyncio.new_event_loop()
    address: list[str] = []
    is_up, is_over = threading.Event(), asyncio.Event()

    async def run() -> None:
        async with grpc_half(faults) as where:
            address.append(where)
            is_up.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    try:
        assert is_up.wait(10)
        with http_half(faults) as root:
            yield address[0], root
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


def visit(
    faults: Faults, folder: Path, *flags: str, status: int | None = None
) -> dict[str, dict[str, Any]]:
    """What the command writes, line by line; its status is checked against what it writes."""
    with served(faults) as (address, root):
        where = ["--target", address, "--http", root, "--metrics", f"{root}/metrics"]
        file = folder / "check.json"
        found = main([*where, *QUICK, "--json", str(file), *flags])
    document = json.loads(file.read_text())
    has_failed = any(line["verdict"] == Verdict.FAIL for line in document["lines"])
    assert document["passed"] == (not has_failed)
    assert found == (EXIT_FAILED if has_failed else 0)
    if status is not None:
        assert found == status, document
    return {line["name"]: line for line in document["lines"]}


def failures(lines: dict[str, dict[str, Any]]) -> set[str]:
    return {name for name, line in lines.items() if line["verdict"] == Verdict.FAIL}


def test_a_service_that_is_well_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "gateway.log"
    log.write_text("2026-01-01T00:00:00.000Z info    gateway gateway: ready\n")
    key = ["--key", KEY, "--logs", str(log), "--model", "fake"]
    lines = visit(Faults(key=KEY), tmp_path, *key, status=0)
    assert {line["verdict"] for line in lines.values()} <= {"PASS", "WARN"}
    assert len(lines) >= 19
    exact = lines["same tokens with and without speculation, greedy"]
    assert exact["figure"] == "2 of 2 answers equal, 24 tokens"
    shown = capsys.readouterr().out
    assert all(name in " ".join(shown.split()) for name in ("go-live list", "PASS"))
    assert KEY not in shown


CASES: list[tuple[Faults, set[str]]] = [
    (Faults(is_unhealthy=True), {"health is good, and true"}),
    (Faults(lies_over_http=True), {"health is good, and true"}),
    (Faults(http_model="other"), {"model"}),
    (Faults(lumps=("grpc",)), {"streams over gRPC"}),
    (Faults(lumps=("http",)), {"streams over HTTP"}),
    (
        Faults(wrong_method=""),
        {
            "same tokens with and without speculation, greedy",
            "same tokens with and without speculation, seeded",
        },
    ),
    (
        Faults(names_no_field=True),
        {"a bad value is refused over gRPC", "a bad value is refused over HTTP"},
    ),
    (
        Faults(takes_bad_values=True),
        {"a bad value is refused over gRPC", "a bad value is refused over HTTP"},
    ),
    (Faults(fails_from=24), {"answers at 100 a second"}),
    (Faults(page={"outrider_sessions": 2}), {"all is given back"}),
]


@pytest.mark.parametrize(("faults", "expected"), CASES)
def test_each_fault_is_found_and_nothing_else(
    faults: Faults, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.going_live.visit.SETTLE_S", 0.0)
    assert failures(visit(faults, tmp_path)) == expected


def test_health_that_lies_is_told_from_health_that_is_bad(tmp_path: Path) -> None:
    lines = visit(Faults(fails_requests=True), tmp_path)
    line = lines["health is good, and true"]
    assert line["verdict"] == Verdict.FAIL
    assert "no verify worker answers" in line["figure"]
    assert {"streams over gRPC", "exactness", "speed", "load"} <= failures(lines)


def test_a_key_that_is_not_needed_is_a_fault(tmp_path: Path) -> None:
    assert failures(visit(Faults(), tmp_path, "--key", KEY)) == {"strangers are refused"}


def test_a_wrong_key_stops_at_the_door(tmp_path: Path) -> None:
    lines = visit(Faults(key=KEY), tmp_path, "--key", "or-wrong")
    assert failures(lines) == {"reachable over gRPC"}
    assert "UNAUTHENTICATED" in lines["reachable over gRPC"]["figure"]
    assert lines["everything else"]["verdict"] == Verdict.SKIPPED


def test_another_model_than_wanted_is_a_fault(tmp_path: Path) -> None:
    assert failures(visit(Faults(), tmp_path, "--model", "other")) == {"model"}


def test_what_differs_may_be_allowed(tmp_path: Path) -> None:
    lines = visit(Faults(wrong_method=""), tmp_path, "--differing", "2", status=0)
    line = lines["same tokens with and without speculation, greedy"]
    assert line["verdict"] == Verdict.WARN
    assert "0 of 2 answers equal" in line["figure"]
    assert "from token 2" in line["figure"]


def test_latencies_beyond_the_budget_are_a_fault(tmp_path: Path) -> None:
    lines = visit(Faults(), tmp_path, "--max-last-ms", "0.001")
    assert failures(lines) == {"whole answer, p50 and p99"}


def test_a_page_or_a_log_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    pages = ["--metrics", f"127.0.0.1:{free_port(0)}", "--logs", str(tmp_path / "none.log")]
    assert failures(visit(Faults(), tmp_path, *pages)) == {"metrics page", "logs"}


def test_without_anybody_there_the_rest_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    target = ["--target", f"127.0.0.1:{free_port(0)}", "--http", f"http://127.0.0.1:{free_port(0)}"]
    assert main([*target, "--json", str(file)]) == EXIT_FAILED
    lines = {line["name"]: line for line in json.loads(file.read_text())["lines"]}
    assert failures(lines) == {"reachable over gRPC", "reachable over HTTP"}


def test_flags_that_do_not_fit_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tls-cert", "cert.pem"]) == EXIT_NOT_RUN
    assert "--tls-key" in capsys.readouterr().out
    assert main(["--tls-ca", "no-such-file.pem"]) == EXIT_NOT_RUN
