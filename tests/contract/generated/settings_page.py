"""docs/settings.md: every setting of the three services, from the classes that read them."""

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from draft_service.settings import DraftSettings
from gateway.settings import GatewaySettings
from outrider.settings import Settings
from verify_service.settings import VerifySettings

HEAD = """\
# Settings

Made by `make generated` from the classes that read them; each service says the same with `--help`.

A setting is a flag or an environment variable: `--log-level` of the gateway is
`OUTRIDER_GATEWAY_LOG_LEVEL`. Flags win. An empty variable counts as unset. A name that does not
exist, or a value that cannot be, stops the start with status 78 and one line that says which.
`outrider up` hands its environment on to the services that it starts. Traces are set by the
standard `OTEL_*` variables ([watching.md](watching.md#traces)).
"""
SERVICES: tuple[tuple[str, type[Settings]], ...] = (
    ("Gateway", GatewaySettings),
    ("Draft worker", DraftSettings),
    ("Verify worker", VerifySettings),
)


def settings_page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(name, cls) for name, cls in SERVICES)])


def _section(name: str, cls: type[Settings]) -> str:
    lines = [
        f"## {name}",
        "",
        f"`python -m {cls.program}`; variables begin with `{cls.env_prefix}`.",
        "",
        "| setting | default | allowed | meaning |",
        "|---|---|---|---|",
    ]
    for field, info in cls.model_fields.items():
        flag = "--" + field.replace("_", "-")
        meaning = (info.description or "").replace("|", "\\|")
        lines.append(f"| `{flag}` | {_default(info)} | {_allowed(info)} | {meaning} |")
    return "\n".join([*lines, ""])


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "needed"
    value = info.default
    if value is None or value == "":
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(info: FieldInfo) -> str:
    kind: Any = info.annotation
    if get_origin(kind) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(kind))
    if kind is bool:
        return "`true`, `false`"
    if kind in (Path, Path | None):
        return "a path"
    if kind is str:
        return "text"
    number = {int: "a whole number", float: "a number"}[kind]
    return number + _bounds(info)


def _bounds(info: FieldInfo) -> str:
    bounds: dict[type[Any], Any] = {
        type(rule): getattr(rule, name)
        for rule in info.metadata
        for kind, name in ((Ge, "ge"), (Gt, "gt"), (Le, "le"))
        if isinstance(rule, kind)
    }
    parts = []
    if Ge in bounds and Le in bounds:
        parts.append(f"{bounds[Ge]:,} to {bounds[Le]:,}")
    elif Ge in bounds:
        parts.append(f"from {bounds[Ge]:,}")
    elif Gt in bounds:
        parts.append(f"above {bounds[Gt]:,}" + (f", up to {bounds[Le]:,}" if Le in bounds else ""))
    return "".join(f", {part}" for part in parts)
