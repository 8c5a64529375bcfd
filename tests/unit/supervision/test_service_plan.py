import sys
from pathlib import Path

import pytest

from outrider.settings import BadSettings
from outrider.supervision.service_plan import (
    ServiceOptions,
    choose_probe_port,
    plan_services,
)

OPTIONS = ServiceOptions(Path("/models/m"))
ENDPOINT = "ipc:///run/x/verify.sock"


def _as_preferred(preferred: int, taken: frozenset[int]) -> int:
    assert preferred not in taken
    return preferred


def _flags(
    options: ServiceOptions = OPTIONS, environ: dict[str, str] | None = None
) -> dict[str, dict[str, str]]:
    flags = {}
    for spec in plan_services(options, [ENDPOINT], environ or {}, _as_preferred):
        words = spec.command[3:]
        flags[spec.name] = dict(zip(words[::2], words[1::2], strict=True))
    return flags


def test_each_service_is_a_module_of_this_interpreter_and_the_gateway_stops_first() -> None:
    specs = plan_services(OPTIONS, [ENDPOINT], {}, _as_preferred)
    assert [spec.command[:3] for spec in specs] == [
        (sys.executable, "-m", "gateway"),
        (sys.executable, "-m", "draft_service"),
        (sys.executable, "-m", "verify_service"),
    ]


def test_the_three_agree_on_the_model_and_on_each_other() -> None:
    assert _flags() == {
        "gateway": {
            "--model": "/models/m",
            "--draft-addresses": "127.0.0.1:50052",
            "--grpc-port": "50051",
            "--http-port": "8080",
        },
        "draft": {
            "--verify-endpoints": ENDPOINT,
            "--grpc-host": "127.0.0.1",
            "--grpc-port": "50052",
            "--metrics-port": "9101",
        },
        "verify": {"--model": "/models/m", "--endpoint": ENDPOINT, "--metrics-port": "9102"},
    }


def test_choices_reach_the_service_that_makes_them() -> None:
    flags = _flags(ServiceOptions(Path("m"), dtype="float32", draft_method="none"))
    assert flags["verify"]["--dtype"] == "float32"
    assert flags["draft"]["--default-method"] == "none"
    assert "--head" not in flags["draft"]


def test_a_head_comes_with_the_target_it_was_made_for() -> None:
    flags = _flags(ServiceOptions(Path("m"), head=Path("h")))
    assert (flags["draft"]["--head"], flags["draft"]["--target"]) == ("h", "m")


def test_a_draft_model_comes_with_the_target_that_it_drafts_for() -> None:
    flags = _flags(ServiceOptions(Path("m"), draft_model=Path("d")))
    assert (flags["draft"]["--draft-model"], flags["draft"]["--target"]) == ("d", "m")
    assert "--head" not in flags["draft"]


def test_ports_of_the_environment_are_kept() -> None:
    flags = _flags(
        environ={
            "OUTRIDER_DRAFT_GRPC_PORT": "7001",
            "OUTRIDER_DRAFT_GRPC_HOST": "::1",
            "OUTRIDER_DRAFT_METRICS_PORT": "7002",
            "OUTRIDER_VERIFY_METRICS_PORT": "7003",
        }
    )
    assert flags["draft"]["--grpc-port"] == "7001"
    assert flags["gateway"]["--draft-addresses"] == "[::1]:7001"
    assert flags["draft"]["--metrics-port"] == "7002"
    assert flags["verify"]["--metrics-port"] == "7003"


def test_taken_ports_give_way_and_no_port_is_promised_twice() -> None:
    given: list[int] = []

    def next_free(preferred: int, taken: frozenset[int]) -> int:
        assert not set(given[:1]) - taken  # the draft's own port is known to the later calls
        given.append(preferred + 1000)
        return given[-1]

    options = ServiceOptions(Path("m"), grpc_port=50052)
    specs = plan_services(options, [ENDPOINT], {}, next_free)
    assert given == [51052, 10101, 10102]
    assert "127.0.0.1:51052" in specs[0].command


def test_several_workers_have_ports_of_their_own_and_all_are_known() -> None:
    options = ServiceOptions(Path("m"), draft_method="none", draft_workers=2, verify_workers=2)
    environ = {"OUTRIDER_DRAFT_GRPC_PORT": "7001", "OUTRIDER_VERIFY_METRICS_PORT": "7003"}
    specs = plan_services(options, ["ipc:///1", "ipc:///2"], environ, _as_preferred)
    assert [spec.name for spec in specs] == ["gateway", "draft", "draft-2", "verify", "verify-2"]
    words = {spec.name: spec.command[3:] for spec in specs}
    flags = {name: dict(zip(one[::2], one[1::2], strict=True)) for name, one in words.items()}
    assert flags["gateway"]["--draft-addresses"] == "127.0.0.1:7001,127.0.0.1:50152"
    for name in ("draft", "draft-2"):
        assert flags[name]["--verify-endpoints"] == "ipc:///1,ipc:///2"
        assert flags[name]["--default-method"] == "none"
    assert flags["draft-2"]["--metrics-port"] == "9201"
    assert [flags[name]["--endpoint"] for name in ("verify", "verify-2")] == [
        "ipc:///1",
        "ipc:///2",
    ]
    assert [flags[name]["--metrics-port"] for name in ("verify", "verify-2")] == ["7003", "9202"]


def test_a_port_that_is_no_number_is_named() -> None:
    with pytest.raises(BadSettings, match="OUTRIDER_DRAFT_GRPC_PORT: must be a port number"):
        _flags(environ={"OUTRIDER_DRAFT_GRPC_PORT": "http"})


def test_a_gateway_with_tls_has_a_plain_port_for_probes() -> None:
    tls = {"OUTRIDER_GATEWAY_TLS_CERT": "c.pem"}
    options = ServiceOptions(Path("m"), http_port=8081)
    assert choose_probe_port(options, {}, lambda port, taken: port) == 0
    assert choose_probe_port(options, tls, lambda port, taken: port + (port in taken)) == 8082
    kept = {**tls, "OUTRIDER_GATEWAY_PROBE_PORT": "9000"}
    assert choose_probe_port(options, kept, lambda port, taken: port) == 9000
    (gateway, *_) = plan_services(
        ServiceOptions(Path("m"), probe_port=9000), ["ipc:///x"], {}, lambda port, taken: port
    )
    assert "--probe-port 9000" in " ".join(gateway.command)
