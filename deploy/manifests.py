"""What manifests, compose file, units and images say, as plain values. Reads YAML and text only.

Patches have the shape of what they patch, so containers are found in them as in whole manifests.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from draft_service.settings import DraftSettings
from gateway.settings import GatewaySettings
from outrider.settings import BadSettings, Settings, load_settings
from verify_service.settings import VerifySettings

DEPLOY = Path(__file__).parent
ROLES: Mapping[str, type[Settings]] = {
    "gateway": GatewaySettings,
    "draft_service": DraftSettings,
    "verify_service": VerifySettings,
}

# Settings that the manifests use and that are still being built. Once they are there, this, its use
# in `is_known`, and `are_all_built` can go.
AWAITED = {
    "gateway": {"draft_tls_ca", "draft_tls_cert", "draft_tls_key", "draft_tls_name"}
    | {"metrics_token_file"},
    "draft_service": {"tls_cert", "tls_key", "tls_client_ca"}
    | {"health_host", "health_port", "metrics_token_file"},
    "verify_service": {"health_host", "health_port", "metrics_token_file"},
}

# In the environment, and no setting of a service.
OTHER_VARIABLES = {"OUTRIDER_CACHE", "OUTRIDER_HEALTH_ADDRESS"}

_ENVIRONMENT_LINE = re.compile(r"^#?(?:Environment=)?(OUTRIDER_[A-Z_]+)=(\S*)", re.MULTILINE)
_IMAGE_LINE = re.compile(r"^\s*(?:ENV\s+)?(OUTRIDER_[A-Z_]+)=(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a manifest, a patch or a compose file.

    Args:
        where: For messages.
        name: Its own.
        image: "" in a patch that leaves it as it is.
        args: What it runs; empty in such a patch.
        env: Variables with a value; those from elsewhere are left out.
        pod: The pod's specification, or the service of a compose file.
        spec: As it was written.
    """

    where: str
    name: str
    image: str
    args: Sequence[str]
    env: Mapping[str, str]
    pod: Mapping[str, Any]
    spec: Mapping[str, Any]


@cache
def documents(path: Path) -> Sequence[dict[str, Any]]:
    """All documents of a YAML file that are not empty; read once."""
    with path.open(encoding="utf-8") as file:
        return tuple(one for one in yaml.safe_load_all(file) if one)


def kustomize_files() -> list[Path]:
    """All manifests and patches as they were written."""
    files = sorted((DEPLOY / "kustomize").rglob("*.yaml"))
    return [one for one in files if "monitoring" not in one.parts]


def containers(document: Any, where: str) -> Iterator[Container]:
    """Containers anywhere in a document, those that run before others included."""
    if isinstance(document, list):
        for one in document:
            yield from containers(one, where)
    if not isinstance(document, dict):
        return
    for key in ("initContainers", "containers"):
        for spec in document.get(key, ()):
            env = {one["name"]: str(one["value"]) for one in spec.get("env", ()) if "value" in one}
            yield Container(
                where,
                spec["name"],
                spec.get("image", ""),
                spec.get("args", ()),
                env,
                document,
                spec,
            )
    for value in document.values():
        yield from containers(value, where)


def written_containers() -> list[Container]:
    """Those of all manifests and patches."""
    return [
        one
        for path in kustomize_files()
        for document in documents(path)
        for one in containers(document, str(path.relative_to(DEPLOY)))
    ]


def compose_services() -> dict[str, Container]:
    """The services of the compose file, by name."""
    (document,) = documents(DEPLOY / "docker-compose.yml")
    return {
        name: Container(
            f"docker-compose.yml: {name}",
            name,
            spec["image"],
            spec.get("command", ()),
            {key: str(value) for key, value in spec.get("environment", {}).items()},
            spec,
            spec,
        )
        for name, spec in document["services"].items()
    }


def text_variables() -> Iterator[tuple[str, str, str]]:
    """File, name and value of each variable in units, environment files and Dockerfiles."""
    for folder, pattern in (("systemd", _ENVIRONMENT_LINE), ("docker", _IMAGE_LINE)):
        for path in sorted((DEPLOY / folder).rglob("*")):
            if path.is_file() and path.suffix != ".md":
                for name, value in pattern.findall(path.read_text(encoding="utf-8")):
                    yield str(path.relative_to(DEPLOY)), name, value


def role_of(name: str) -> str | None:
    """Whose setting a variable is; None: nobody's."""
    for role, settings in ROLES.items():
        if name.startswith(settings.env_prefix):
            return role
    return None


def field_of(name: str) -> str:
    """The field that a variable sets."""
    role = role_of(name)
    assert role is not None
    return name.removeprefix(ROLES[role].env_prefix).lower()


def is_known(name: str) -> bool:
    """False for an OUTRIDER_ variable that a start would refuse, or that nothing reads."""
    if not name.startswith("OUTRIDER_") or name in OTHER_VARIABLES:
        return True
    role = role_of(name)
    return role is not None and field_of(name) in {*ROLES[role].model_fields, *AWAITED[role]}


def are_all_built() -> bool:
    """True where no setting is awaited any more."""
    return all(fields <= set(ROLES[role].model_fields) for role, fields in AWAITED.items())


def refusal(container: Container) -> str:
    """Why the service of a container would not start with its environment; "" where it would.

    Files need not be there. Flags behind `-m SERVICE` count too.
    """
    args = list(container.args)
    if "-m" not in args or args[args.index("-m") + 1] not in ROLES:
        return ""
    at = args.index("-m") + 1
    try:
        load_settings(ROLES[args[at]], args[at + 1 :], container.env)
    except BadSettings as error:
        return f"{container.where}: container {container.name}: {error}"
    return ""
