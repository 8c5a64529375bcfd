"""What is written in deploy/ agrees with the code and with itself; needs no cluster and no tool.

`make deploy-check` renders the same files and asks the tools that know Kubernetes.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.manifests import (
    DEPLOY,
    ROLES,
    Container,
    are_all_built,
    compose_services,
    documents,
    field_of,
    is_known,
    kustomize_files,
    refusal,
    role_of,
    text_variables,
    written_containers,
)

ROOT = DEPLOY.parent
KUSTOMIZE = DEPLOY / "kustomize"
MARGIN_S = 10  # between the end of a drain and the kill
FAREWELL_S = 2  # of the gateway, at the end of its drain

# The one list of ports.
PORTS = {
    "OUTRIDER_GATEWAY_GRPC_PORT": 50051,
    "OUTRIDER_GATEWAY_HTTP_PORT": 8080,
    "OUTRIDER_GATEWAY_PROBE_PORT": 8081,
    "OUTRIDER_DRAFT_GRPC_PORT": 50052,
    "OUTRIDER_DRAFT_HEALTH_PORT": 50062,
    "OUTRIDER_DRAFT_METRICS_PORT": 9101,
    "OUTRIDER_VERIFY_HEALTH_PORT": 50063,
    "OUTRIDER_VERIFY_METRICS_PORT": 9102,
}
VERIFY_PORT = 50053
PORT_NAMES = {
    "grpc": 50051, "http": 8080, "probe": 8081, "drafting": 50052, "draft-health": 50062,
    "draft-metrics": 9101, "verifying": 50053, "verify-health": 50063, "verify-metrics": 9102,
}  # fmt: skip
DNS_AND_HTTPS_AND_OTLP = {53, 443, 4317}
# Made elsewhere: by a certificate's issuer, by an owner of a hub's token.
OTHER_SECRETS = {"outrider-public-tls", "outrider-hub"}

CONTAINERS = written_containers()
COMPOSE = compose_services()
EVERYWHERE = [*CONTAINERS, *COMPOSE.values()]
OURS = [one for one in EVERYWHERE if one.image.startswith("outrider-")]


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in kustomize_files():
        for document in documents(path):
            yield str(path.relative_to(DEPLOY)), document


def pods(document: Any) -> Iterator[dict[str, Any]]:
    """Pod templates: whatever has a `spec` with containers in it."""
    if isinstance(document, dict):
        if "containers" in (document.get("spec") or {}):
            yield document
        for value in document.values():
            yield from pods(value)


def whole_pods() -> list[tuple[str, dict[str, Any]]]:
    """Those that are no patches."""
    return [
        (where, pod)
        for where, document in manifests()
        for pod in pods(document)
        if "labels" in pod.get("metadata", {})
    ]


def variables() -> list[tuple[str, str, str]]:
    """Where, name and value of all variables."""
    found = [
        (one.where, entry["name"], str(entry.get("value", "")))
        for one in CONTAINERS
        for entry in one.spec.get("env", ())
        if entry.get("$patch") != "delete"
    ]
    found += [(one.where, *pair) for one in COMPOSE.values() for pair in one.env.items()]
    return found + list(text_variables())


def test_there_is_something_to_check() -> None:
    """So that a change of layout does not empty all the tests below."""
    assert len(CONTAINERS) > 20
    assert len(whole_pods()) >= 7
    assert len(variables()) > 100
    assert {one.parts[-2] for one in kustomize_files()} >= {"base", "tls-curve", "dev-cpu"}
    assert {where.split("/")[0] for where, _, _ in text_variables()} == {"systemd", "docker"}


def test_every_variable_is_a_setting() -> None:
    assert [(where, name) for where, name, _ in variables() if not is_known(name)] == []


@pytest.mark.parametrize("path", ["docs/deployment.md", "deploy/systemd/README.md"])
def test_every_variable_of_a_page_is_a_setting(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    names = re.findall(r"OUTRIDER_(?:GATEWAY|DRAFT|VERIFY)_[A-Z_]+[A-Z]", text)
    assert names
    assert [name for name in names if not is_known(name)] == []


def test_every_flag_is_a_setting() -> None:
    """Flags of commands in manifests and units; most settings are variables there."""
    commands = [(one.where, [str(arg) for arg in one.args]) for one in EVERYWHERE]
    for path in (DEPLOY / "systemd").glob("*.service"):
        for line in re.findall(r"^ExecStart=(.*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            commands.append((path.name, line.split()))
    roles = set()
    for where, words in commands:
        for role in ROLES:
            if "-m" in words and words[words.index("-m") + 1] == role:
                roles.add(role)
                flags = [word for word in words[words.index(role) :] if word.startswith("--")]
                unknown = [
                    flag
                    for flag in flags
                    if flag[2:].replace("-", "_") not in ROLES[role].model_fields
                ]
                assert unknown == [], where
    assert roles == set(ROLES)


def test_ports_agree_with_the_list() -> None:
    for where, name, value in variables():
        if name.endswith("_PORT"):
            assert int(value) == PORTS[name], where
    for one in CONTAINERS:
        for port in one.spec.get("ports", ()):
            assert port["containerPort"] == PORT_NAMES[port["name"]], one.where
    for name, number in PORTS.items():
        default = ROLES[str(role_of(name))].model_fields.get(field_of(name))
        assert default is None or default.default in (0, number), name


def test_addresses_name_services_and_their_ports() -> None:
    services = {d["metadata"]["name"] for _, d in manifests() if d["kind"] == "Service"}
    found = set()
    for where, name, value in variables():
        for host, port in re.findall(r"dns:([a-z-]+):(\d+)", value):
            assert host in services, where
            assert host in COMPOSE, where
            assert int(port) == {"draft": 50052, "verify": VERIFY_PORT}[host], where
            found.add(name)
        if match := re.fullmatch(r"tcp://.*:(\d+)", value):
            assert int(match[1]) == VERIFY_PORT, where
    assert found == {"OUTRIDER_GATEWAY_DRAFT_ADDRESSES", "OUTRIDER_DRAFT_VERIFY_ENDPOINTS"}


def test_services_lead_to_ports_of_pods_that_they_select() -> None:
    for where, service in manifests():
        if service["kind"] != "Service" or "selector" not in service["spec"]:
            continue
        selected = [pod for _, pod in whole_pods() if is_selected(pod, service["spec"]["selector"])]
        assert selected, where
        for port in service["spec"]["ports"]:
            assert port["port"] == PORT_NAMES[port["targetPort"]], where
            for pod in selected:
                names = {p["name"] for c in pod["spec"]["containers"] for p in c.get("ports", ())}
                assert port["targetPort"] in names, where


def is_selected(pod: dict[str, Any], labels: dict[str, str]) -> bool:
    own: dict[str, str] = pod["metadata"]["labels"]
    return labels.items() <= own.items()


def test_selectors_match_labels() -> None:
    for where, document in manifests():
        spec = document.get("spec") or {}
        selector = spec.get("selector") if document["kind"] != "Service" else None
        if not selector:
            continue
        own = list(pods(document))
        candidates = own or [pod for _, pod in whole_pods()]
        assert any(is_selected(pod, selector["matchLabels"]) for pod in candidates), where
    for where, pod in whole_pods():
        for constraint in pod["spec"].get("topologySpreadConstraints", ()):
            assert is_selected(pod, constraint["labelSelector"]["matchLabels"]), where


def test_policies_name_pods_and_ports_that_exist() -> None:
    policies = [(w, d) for w, d in manifests() if d["kind"] == "NetworkPolicy"]
    components = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"] for _, pod in whole_pods()
    }
    assert any(p["metadata"]["name"] == "default-deny" for _, p in policies)
    for where, policy in policies:
        text = str(policy["spec"])
        named = re.findall(r"'app.kubernetes.io/component': '([a-z-]+)'", text)
        assert set(named) <= components, where
        ports = {int(port) for port in re.findall(r"'port': (\d+)", text)}
        assert ports <= {*PORT_NAMES.values(), *DNS_AND_HTTPS_AND_OTLP}, where


Flow = tuple[str, str, int]


def may_meet(rules: list[dict[str, Any]], side: str, labels: dict[str, str], port: int) -> bool:
    """True where a rule names pods with these labels, of this namespace, and the port."""
    for rule in rules:
        peers = rule.get(side, [{"podSelector": {}}])
        near = [peer["podSelector"] for peer in peers if "namespaceSelector" not in peer]
        ports = [one["port"] for one in rule.get("ports", [{"port": port}])]
        if port in ports and any(
            one.get("matchLabels", {}).items() <= labels.items() for one in near
        ):
            return True
    return False


def test_exactly_the_flows_that_exist_are_allowed() -> None:
    """Between pods of the overlays; with clients and Prometheus in the namespace too."""
    policies = [
        one["spec"] for one in documents(KUSTOMIZE / "components/networkpolicy/policies.yaml")
    ]
    pods = {
        name: {"app.kubernetes.io/name": "outrider", "app.kubernetes.io/component": name}
        for name in ("gateway", "draft", "verify")
    }
    outside = {"client": {"app": "client"}, "prometheus": {"app.kubernetes.io/name": "prometheus"}}

    def is_open(direction: str, side: str, own: str, other: str, port: int) -> bool:
        rules = [
            rule
            for policy in policies
            if policy["podSelector"].get("matchLabels", {}).items() <= pods[own].items()
            for rule in policy.get(direction, ())
        ]
        return may_meet(rules, side, (pods | outside)[other], port)

    flows: set[Flow] = set()
    for source in (*pods, *outside):
        for target in pods:
            for port in PORT_NAMES.values():
                goes = source in outside or is_open("egress", "to", source, target, port)
                if goes and is_open("ingress", "from", target, source, port):
                    flows.add((source, target, port))
    assert flows == {
        ("client", "gateway", 50051),
        ("client", "gateway", 8080),
        ("prometheus", "gateway", 50051),  # a client like any other
        ("prometheus", "gateway", 8080),
        ("gateway", "draft", 50052),
        ("draft", "verify", 50053),
        *(("prometheus", pod, port) for pod in pods for port in (8081, 9101, 9102)),
    }


def drain_s(container: Container) -> float:
    """How long the service of a container drains."""
    role = next(role for role in ROLES if role in container.args)
    name = ROLES[role].env_prefix + "DRAIN_TIMEOUT_S"
    return float(container.env.get(name, ROLES[role].model_fields["drain_timeout_s"].default))


def serving(containers: list[Container]) -> list[Container]:
    return [one for one in containers if set(ROLES) & set(one.args)]


def test_grace_periods_are_longer_than_drains() -> None:
    checked = 0
    for one in serving(CONTAINERS):
        if "terminationGracePeriodSeconds" not in one.pod:
            continue
        before_s = one.spec.get("lifecycle", {}).get("preStop", {}).get("sleep", {})
        needed_s = before_s.get("seconds", 0) + drain_s(one) + FAREWELL_S + MARGIN_S
        assert one.pod["terminationGracePeriodSeconds"] >= needed_s, (one.where, one.name)
        checked += 1
    assert checked >= 7
    for one in serving(list(COMPOSE.values())):
        assert float(one.spec["stop_grace_period"].rstrip("s")) >= drain_s(one) + MARGIN_S
    for path in sorted((DEPLOY / "systemd").glob("outrider-*.service")):
        role = path.stem.removeprefix("outrider-")
        if role == "pull":
            continue
        unit = path.read_text(encoding="utf-8")
        environment = (DEPLOY / "systemd" / "env" / f"{role}.env").read_text(encoding="utf-8")
        drain = float(re.findall(r"DRAIN_TIMEOUT_S=(\S+)", environment)[0])
        stop = float(re.findall(r"^TimeoutStopSec=(\S+)", unit, re.MULTILINE)[0])
        assert stop >= drain + MARGIN_S, path.name
        assert "RestartPreventExitStatus=78" in unit
        assert "KillSignal=SIGTERM" in unit


def test_a_gateway_drains_as_long_as_its_longest_request() -> None:
    """What it holds is held by nobody else."""
    (gateway,) = [one for one in CONTAINERS if one.image.startswith("outrider-gateway") and
                  "gateway" in one.args and one.where.endswith("base/gateway.yaml")]  # fmt: skip
    assert drain_s(gateway) >= float(gateway.env["OUTRIDER_GATEWAY_MAX_DEADLINE_S"])


def test_probes_ask_ports_and_services_that_exist() -> None:
    seen = set()
    for one in serving(CONTAINERS):
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if kind not in one.spec:
                continue
            probe = one.spec[kind]
            if "grpc" in probe:
                ports = {v for k, v in one.env.items() if k.endswith("HEALTH_PORT")}
                assert {str(probe["grpc"]["port"])} == ports, one.where
                wanted = "ready" if kind == "readinessProbe" else "live"
                assert probe["grpc"]["service"] == wanted, one.where
            else:
                path = "/health" if kind == "readinessProbe" else "/live"
                assert probe["httpGet"] == {"path": path, "port": "probe"}, one.where
            seen.add((one.name, kind))
    assert len(seen) == 9


def test_images_are_ours_and_of_this_version() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    allowed = {f"outrider-gateway:{version}", f"outrider-worker:{version}"}
    written = {one.image for one in CONTAINERS if one.image}
    assert written == allowed
    tags = {f"{version}-cpu", f"{version}-cuda"}
    for path in (KUSTOMIZE / "overlays").glob("*/kustomization.yaml"):
        (document,) = documents(path)
        for image in document["images"]:
            assert image["name"] == "outrider-worker", path
            assert image["newTag"] in tags, path
    assert {one.image for one in OURS} - written == {f"outrider-worker:{version}-cpu"}
    built = {
        name
        for path in (DEPLOY / "docker").glob("*.Dockerfile")
        for name in re.findall(r" -t (\S+)", path.read_text(encoding="utf-8"))
    }
    assert built == {f"outrider-gateway:{version}", *(f"outrider-worker:{tag}" for tag in tags)}


def test_pods_are_restricted() -> None:
    for where, pod in whole_pods():
        spec = pod["spec"]
        assert spec["enableServiceLinks"] is False, f"{where}: OUTRIDER_..._SERVICE_HOST would come"
        assert spec["automountServiceAccountToken"] is False, where
        assert spec["securityContext"]["runAsNonRoot"] is True, where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
    for one in CONTAINERS:
        if one.image:
            context = one.spec["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, one.where
            assert context["allowPrivilegeEscalation"] is False, one.where
            assert context["capabilities"] == {"drop": ["ALL"]}, one.where
            assert "memory" in one.spec["resources"]["limits"], one.where
    (namespace,) = documents(KUSTOMIZE / "base" / "namespace.yaml")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_files_of_secrets_are_there_where_settings_look_for_them() -> None:
    (secrets,) = documents(KUSTOMIZE / "secrets" / "kustomization.yaml")
    made = {
        one["name"]: {file.rsplit("/", 1)[-1] for file in one["files"]}
        for one in secrets["secretGenerator"]
    }
    made["outrider-public-tls"] = {"tls.crt", "tls.key"}
    looked_at = 0
    for one in CONTAINERS:
        volumes = {v["name"]: v for v in one.pod.get("volumes", ())}
        for mount in one.spec.get("volumeMounts", ()):
            secret = volumes.get(mount["name"], {}).get("secret")
            if secret is None:
                continue
            name = secret["secretName"]
            assert name in made or name in OTHER_SECRETS, one.where
            assert secret["defaultMode"] == 0o440, one.where
            for value in one.env.values():
                if value.startswith(mount["mountPath"] + "/") and name in made:
                    assert value.rsplit("/", 1)[-1] in made[name], (one.where, value)
                    looked_at += 1
    assert looked_at >= 15


def test_keys_stay_out_of_git_and_of_images() -> None:
    assert "/cluster/" in (KUSTOMIZE / "secrets" / ".gitignore").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert "*" in ignored
    assert not any(line.startswith("!deploy") for line in ignored)


def test_the_compose_file_hangs_together() -> None:
    (document,) = documents(DEPLOY / "docker-compose.yml")
    for one in COMPOSE.values():
        for name in one.spec.get("depends_on", ()):
            assert name in COMPOSE, one.where
        for volume in one.spec.get("volumes", ()):
            source = volume.split(":")[0]
            if not source.startswith("."):
                assert source in document["volumes"], one.where
            elif (KUSTOMIZE / "components" / "monitoring").is_dir() or "monitoring" not in source:
                assert (DEPLOY / source).exists(), one.where
        assert one.spec["read_only"] is True, one.where
        assert one.spec["cap_drop"] == ["ALL"], one.where


@pytest.mark.skipif(not are_all_built(), reason="settings of workers are awaited")
def test_services_start_with_their_environment() -> None:
    assert [text for one in COMPOSE.values() if (text := refusal(one))] == []


def test_an_environment_that_is_refused_is_seen() -> None:
    """The check that `make deploy-check` makes of whole manifests can fail."""
    args = ["python", "-m", "gateway"]
    bad = Container("x", "gateway", "", args, {"OUTRIDER_GATEWAY_HTTP_HOST": "0.0.0.0"}, {}, {})
    assert "--model is needed" in refusal(bad)
    assert not is_known("OUTRIDER_GATEWAY_SERVICE_HOST")
    assert is_known("OTEL_EXPORTER_OTLP_ENDPOINT")


def test_one_namespace_of_one_kind() -> None:
    """The Secrets' kustomization makes it where it is applied first."""
    base, secrets = (KUSTOMIZE / f / "namespace.yaml" for f in ("base", "secrets"))
    assert base.read_text(encoding="utf-8") == secrets.read_text(encoding="utf-8")


def _folder(path: Path) -> str:
    return path.parent.name


def test_overlays_end_their_links_with_keys() -> None:
    """A component that replaces pods comes before the one that opens their links."""
    overlays = sorted((KUSTOMIZE / "overlays").glob("*/kustomization.yaml"))
    assert {_folder(path) for path in overlays} == {"dev-cpu", "colocated-gpu", "disaggregated-gpu"}
    for path in overlays:
        (document,) = documents(path)
        names = [one.rsplit("/", 1)[-1] for one in document["components"]]
        assert {"tls-curve", "networkpolicy", "model-volume"} <= set(names), path
        if "colocated" in names:
            assert names.index("colocated") < names.index("tls-curve"), path
        assert document["namespace"] == "outrider", path
