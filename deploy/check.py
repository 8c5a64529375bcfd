"""`make deploy-check`: renders and checks everything in deploy/, as far as this machine can.

Each step says OK, FAIL or SKIP with the reason. A tool that is missing is a SKIP line and no
failure, so that what was not looked at is seen. Knows no rules of its own about manifests: those
are in tests/contract/test_deployment.py, which need none of these tools.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.manifests import DEPLOY, are_all_built, containers, documents, refusal
from deploy.rendering import KUSTOMIZE, roots

KUBERNETES = "1.32"
TOOLS = DEPLOY.parent / ".venv-deploy" / "bin"

# Kinds whose schema is not Kubernetes' own: rendered, and looked at by nobody here.
FOREIGN_KINDS = {
    "Gateway", "GRPCRoute", "HTTPRoute", "LeaderWorkerSet", "PodMonitor", "PrometheusRule",
    "ScaledObject",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rendered:
    """A set of manifests as a cluster would get them.

    Args:
        name: For people.
        path: File with all of them.
    """

    name: str
    path: Path


@dataclass
class Report:
    """What was found, told at once and counted."""

    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    def ok(self, step: str) -> None:
        print(f"OK    {step}", flush=True)

    def skip(self, step: str, reason: str) -> None:
        self.skips.append(step)
        print(f"SKIP  {step}: {reason}", flush=True)

    def fail(self, step: str, text: str) -> None:
        self.failures.append(step)
        print(f"FAIL  {step}\n{text.rstrip()}\n", flush=True)

    def judge(self, step: str, result: "subprocess.CompletedProcess[str]") -> None:
        if result.returncode:
            self.fail(step, result.stdout + result.stderr)
        else:
            self.ok(step)


def main() -> int:
    """Runs all steps.

    Returns:
        0 where nothing failed.
    """
    report = Report()
    with tempfile.TemporaryDirectory() as work:
        rendered = render_all(report, Path(work))
        for step in (check_schemas, check_settings, check_with_checkov):
            step(report, rendered)
        check_dockerfiles(report)
        check_compose(report)
        check_units(report, Path(work))
        check_rules(report)
    print(f"\n{len(report.failures)} failed, {len(report.skips)} skipped")
    return 1 if report.failures else 0


def render_all(report: Report, work: Path) -> list[Rendered]:
    """Base, base with each component alone, the examples of several, and each overlay."""
    kubectl, kustomize = find("kubectl"), find("kustomize")
    if kubectl is None and kustomize is None:
        report.skip("render", "neither kubectl nor kustomize is here; NO manifest is rendered")
        return []
    command = [kustomize, "build"] if kubectl is None else [kubectl, "kustomize"]
    found = []
    add_secrets(report, work)
    for number, (name, folder) in enumerate(roots(work)):
        result = run([str(part) for part in command] + [str(folder)])
        report.judge(f"render {name}", result)
        if not result.returncode:
            found.append(Rendered(name, work / f"rendered-{number}.yaml"))
            found[-1].path.write_text(result.stdout, encoding="utf-8")
    return found


def add_secrets(report: Report, work: Path) -> None:
    """A copy of the Secrets' kustomization with new keys, made by the command that it names."""
    folder = work / "secrets"
    shutil.copytree(KUSTOMIZE / "secrets", folder, ignore=lambda *_: ["cluster"])
    command = [sys.executable, "-m", "outrider.cli", "keys", "--cluster", str(folder / "cluster")]
    result = run(command)
    if "No such option" in result.stderr:
        shutil.rmtree(folder)
        report.skip("render secrets", "`outrider keys --cluster` is not there yet")
    else:
        report.judge("outrider keys --cluster", result)


def check_schemas(report: Report, rendered: Sequence[Rendered]) -> None:
    """Every object against the schema of one version of Kubernetes."""
    tool = find("kubernetes-validate")
    if tool is None:
        report.skip("schemas", "kubernetes-validate is not here: make deploy-tools")
        return
    for one in rendered:
        kinds = {document["kind"] for document in documents(one.path)}
        step = f"schemas of {one.name}"
        if foreign := sorted(kinds & FOREIGN_KINDS):
            report.skip(step, f"{', '.join(foreign)}: no schema here; the rest is checked")
        result = run([tool, "-k", KUBERNETES, "--strict", str(one.path)])
        lines = (result.stdout + result.stderr).splitlines()
        unknown = [
            line
            for line in lines
            if "find schema" in line and not any(f"kind {kind} " in line for kind in FOREIGN_KINDS)
        ]
        if result.returncode or unknown:
            report.fail(step, "\n".join(unknown or lines))
        else:
            report.ok(step)


def check_settings(report: Report, rendered: Sequence[Rendered]) -> None:
    """Every container's environment by the settings of the service that it runs."""
    if not are_all_built():
        report.skip("settings", "settings of workers are awaited (deploy/manifests.py)")
        return
    for one in rendered:
        refusals = [
            text
            for document in documents(one.path)
            for container in containers(document, one.name)
            if (text := refusal(container))
        ]
        if refusals:
            report.fail(f"settings of {one.name}", "\n".join(refusals))
        else:
            report.ok(f"settings of {one.name}")


def check_with_checkov(report: Report, rendered: Sequence[Rendered]) -> None:
    """Security of manifests and Dockerfiles; exceptions stand in checkov.yaml."""
    tool = find("checkov")
    if tool is None:
        report.skip("checkov", "it is not here: make deploy-tools")
        return
    common = [tool, "--config-file", str(DEPLOY / "checkov.yaml"), "--framework"]
    files = [word for one in rendered for word in ("-f", str(one.path))]
    if files:
        report.judge(f"checkov, {len(rendered)} manifests", run([*common, "kubernetes", *files]))
    report.judge("checkov, Dockerfiles", run([*common, "dockerfile", "-d", str(DEPLOY / "docker")]))


def check_dockerfiles(report: Report) -> None:
    """Dockerfiles by hadolint."""
    tool = find("hadolint")
    if tool is None:
        report.skip("hadolint", "it is not here: make deploy-tools")
        return
    for path in sorted((DEPLOY / "docker").glob("*.Dockerfile")):
        report.judge(f"hadolint {path.name}", run([tool, str(path)]))


def check_compose(report: Report) -> None:
    """The compose file by docker's own reader."""
    docker = find("docker")
    if docker is None or run([docker, "compose", "version"]).returncode:
        report.skip("compose", "docker compose is not here; tests check names and settings only")
        return
    path = DEPLOY / "docker-compose.yml"
    report.judge("compose", run([docker, "compose", "-f", str(path), "config", "--quiet"]))


def check_units(report: Report, work: Path) -> None:
    """The units by systemd; their programs are stood in for."""
    tool = find("systemd-analyze")
    if tool is None:
        report.skip("units", "systemd-analyze is not here")
        return
    folder = work / "units"
    folder.mkdir()
    for name in ("python", "outrider"):
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    units = []
    for path in sorted((DEPLOY / "systemd").glob("outrider*")):
        text = path.read_text(encoding="utf-8").replace("/opt/outrider/bin/", f"{folder}/")
        units.append(folder / path.name)
        units[-1].write_text(text, encoding="utf-8")
    result = run([tool, "verify", "--man=no", *map(str, units)])
    # An older systemd ignores what it does not know, and says so.
    said = [line for line in result.stderr.splitlines() if "Unknown key" not in line]
    if result.returncode or said:
        report.fail("units", "\n".join(said) or result.stderr)
    else:
        report.ok(f"units: {', '.join(one.name for one in units)}")


def check_rules(report: Report) -> None:
    """What Prometheus reads, by a script of its own."""
    script = DEPLOY / "check_rules.sh"
    if not script.is_file():
        report.skip("rules", "there is no deploy/check_rules.sh")
        return
    result = run(["sh", str(script)])
    skipped = [line for line in (result.stdout + result.stderr).splitlines() if "SKIP" in line]
    for line in skipped:
        report.skip("rules", line)
    report.judge("rules", result)


def find(name: str) -> str | None:
    """A tool, our own before the system's; None where there is none."""
    own = TOOLS / name
    return str(own) if own.is_file() else shutil.which(name)


def run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Runs a tool and keeps what it says."""
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
