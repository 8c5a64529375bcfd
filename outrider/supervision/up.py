"""`outrider up`: pulls the model where needed, starts the services, says when they can be used.

The composition root of the supervisor: owns its signals and its terminal.
"""

import asyncio
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from outrider.embedded_model import (
    EMBEDDED,
    EMBEDDED_HEAD,
    embedded_model_folder,
    resolve_model,
)
from outrider.pulling.hub import fetch_hub_model
from outrider.pulling.manifest import missing_files
from outrider.pulling.pull import default_steps, pull
from outrider.pulling.terminal import TerminalReporter
from outrider.settings import BadSettings
from outrider.supervised import watch_parent
from outrider.supervision.child import ChildSpec
from outrider.supervision.ports import free_port, is_free
from outrider.supervision.readiness import wait_until_serving
from outrider.supervision.restart_policy import RestartPolicy
from outrider.supervision.runtime_folder import verify_endpoints
from outrider.supervision.service_plan import (
    AUTO_HEAD,
    NO_HEAD,
    ServiceOptions,
    choose_probe_port,
    plan_services,
)
from outrider.supervision.supervisor import Supervisor
from outrider.supervision.terminal import UpTerminal

DEFAULT_ADDRESS = "127.0.0.1:50051"

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the gateway listens.

    Args:
        grpc_host: Of the gRPC listener.
        grpc_port: Of the gRPC listener.
        http_host: Of the HTTP listener.
        http_port: Of the HTTP listener.
        probe_host: Of the probe listener.
        probe_port: Of the probe listener, which is there where the others have TLS; 0: none.
    """

    grpc_host: str
    grpc_port: int
    http_host: str
    http_port: int
    probe_host: str = "127.0.0.1"
    probe_port: int = 0

    @property
    def health(self) -> tuple[str, int]:
        """Host and port of a /health without TLS."""
        if self.probe_port:
            return self.probe_host, self.probe_port
        return self.http_host, self.http_port


def run_up(
    model: str,
    head: str,
    draft_model: str,
    options: ServiceOptions,
    may_pull: bool,
    environ: Mapping[str, str],
) -> int:
    """Serves until told to stop.

    Args:
        model: As `resolve_model` reads it.
        head: As `head_folder` reads it.
        draft_model: As `resolve_model` reads it; "": none.
        options: What else was asked for; its folders are replaced.
        may_pull: Fetch the embedded model where it is missing.
        environ: Environment.

    Returns:
        Exit status: 0 after a signal, else the supervisor's.

    Raises:
        BadSettings: A port is taken, or there is no such model or head.
        PullError: The embedded model cannot be had.
    """
    options = replace(options, probe_port=choose_probe_port(options, environ, free_port))
    addresses = Addresses(
        environ.get("OUTRIDER_GATEWAY_GRPC_HOST", "").strip() or "127.0.0.1",
        options.grpc_port,
        environ.get("OUTRIDER_GATEWAY_HTTP_HOST", "").strip() or "127.0.0.1",
        options.http_port,
        environ.get("OUTRIDER_GATEWAY_PROBE_HOST", "").strip() or "127.0.0.1",
        options.probe_port,
    )
    _check_public_port("--grpc-port", addresses.grpc_host, addresses.grpc_port)
    _check_public_port("--http-port", addresses.http_host, addresses.http_port)
    if addresses.grpc_port == addresses.http_port:
        raise BadSettings(f"--grpc-port and --http-port are both {options.grpc_port}")
    folder = model_folder(model, may_pull, environ)
    options = replace(options, model=folder, head=head_folder(head, folder, environ))
    if draft_model:
        drafting = model_folder(draft_model, may_pull, environ, "--draft-model")
        options = replace(options, draft_model=drafting)
    with verify_endpoints(environ, options.verify_workers) as endpoints:
        specs = plan_services(options, endpoints, environ, free_port)
        terminal = UpTerminal()
        try:
            return asyncio.run(_serve(specs, addresses, folder.name, terminal, environ))
        finally:
            terminal.loaded()


def model_folder(
    model: str, may_pull: bool, environ: Mapping[str, str], flag: str = "--model"
) -> Path:
    """Finds a model, fetching what is missing where that is allowed; `flag` is for messages.

    Raises:
        BadSettings: There is no such model.
        PullError: It cannot be fetched.
    """
    embedded = embedded_model_folder(environ)
    if model in ("", EMBEDDED) and may_pull and missing_files(embedded) is not None:
        with TerminalReporter() as reporter:
            pull(embedded, reporter, default_steps())
    found = resolve_model(model, environ, flag)
    return found if isinstance(found, Path) else fetch_hub_model(found)


def head_folder(head: str, model: Path, environ: Mapping[str, str]) -> Path | None:
    """Finds a draft head.

    Args:
        head: A folder, "none", or "auto": the one that comes with the embedded model, unless
            another model is served or the environment names a head to the draft worker.
        model: Folder of the target.
        environ: Environment.

    Raises:
        BadSettings: There is no such folder.
    """
    if head == NO_HEAD:
        return None
    if head == AUTO_HEAD:
        is_settled = environ.get("OUTRIDER_DRAFT_HEAD", "").strip()
        return EMBEDDED_HEAD if model == embedded_model_folder(environ) and not is_settled else None
    folder = Path(head).expanduser().absolute()
    if not folder.is_dir():
        raise BadSettings(f"--head {head}: no such folder, and neither {AUTO_HEAD} nor {NO_HEAD}")
    return folder


async def _serve(
    specs: Sequence[ChildSpec],
    addresses: Addresses,
    model_name: str,
    terminal: UpTerminal,
    environ: Mapping[str, str],
) -> int:
    supervisor = Supervisor(specs, RestartPolicy(), terminal.child_line, terminal.note)
    loop = asyncio.get_running_loop()
    presses = 0

    def on_signal() -> None:
        nonlocal presses
        presses += 1
        terminal.loaded()
        terminal.note("stopping; once more kills" if presses == 1 else "killed")
        supervisor.request_stop()

    def on_lost() -> None:
        loop.call_soon_threadsafe(on_signal)

    # A command that started this service may be killed; the service must not outlive it.
    watch_parent(on_lost, environ)
    with _signals_to(on_signal):
        announcing = asyncio.create_task(_announce(addresses, model_name, terminal))
        try:
            return await supervisor.run()
        finally:
            announcing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await announcing


async def _announce(addresses: Addresses, model_name: str, terminal: UpTerminal) -> None:
    start = time.monotonic()
    terminal.loading(f"Loading {model_name}")
    await wait_until_serving(
        *addresses.health,
        lambda reason: terminal.loading(f"Loading {model_name}: {reason}"),
    )
    terminal.ready(ready_text(addresses, model_name, time.monotonic() - start, command_name()))


def ready_text(addresses: Addresses, model_name: str, seconds: float, command: str) -> str:
    """The line that says where the service is, and two commands to try."""
    grpc_address = f"{addresses.grpc_host}:{addresses.grpc_port}"
    has_tls = bool(addresses.probe_port)
    url = f"{'https' if has_tls else 'http'}://{addresses.http_host}:{addresses.http_port}"
    elsewhere = "" if grpc_address == DEFAULT_ADDRESS else f"--address {grpc_address} "
    elsewhere += "--tls-ca ROOTS.pem " if has_tls else ""
    trust = "--cacert ROOTS.pem " if has_tls else ""
    return (
        f"Ready in {seconds:.1f} s: {model_name} at gRPC {grpc_address} and {url} (Ctrl-C stops)\n"
        f'  {command} generate {elsewhere}"Why is the sky blue?"\n'
        f"  curl {trust}-X POST {url}/generate -H 'Content-Type: application/json'"
        """ -d '{"prompt": "Hello, "}'"""
    )


def command_name() -> str:
    """How this installation's command is called from the current folder."""
    here = Path(sys.executable).parent / "outrider"
    on_path = shutil.which("outrider")
    if on_path is not None and Path(on_path).parent == here.parent:
        return "outrider"
    try:
        return str(here.relative_to(Path.cwd()))
    except ValueError:
        return str(here)


@contextlib.contextmanager
def _signals_to(on_signal: Callable[[], None]) -> Iterator[None]:
    """Works the same on all platforms; the handlers from before come back at the end."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(on_signal)

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_public_port(flag: str, host: str, port: int) -> None:
    if not 1 <= port <= _MAX_PORT:
        raise BadSettings(f"{flag}: must be from 1 to {_MAX_PORT} (got {port})")
    try:
        free = is_free(host, port)
    except OSError as error:
        raise BadSettings(f"{flag} {port}: cannot listen on {host}: {error.strerror}") from None
    if not free:
        raise BadSettings(
            f"{flag} {port}: in use on {host}; stop what uses it or name another port"
        )
