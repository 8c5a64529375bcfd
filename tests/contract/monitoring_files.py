"""What lies in deploy/ for those who watch: rules, alerts and the dashboard, read from files."""

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "kustomize" / "components" / "monitoring"
RULE_FILES = (MONITORING / "rules" / "recording.yaml", MONITORING / "rules" / "alerts.yaml")


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    read: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    return read


def panels() -> list[dict[str, Any]]:
    """Its panels that show something, rows left out."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    """All rules: those that record and those that alert."""
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in RULE_FILES]
    return [rule for one in documents for group in one["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """Rules that alert."""
    return [rule for rule in rules() if "alert" in rule]


def recorded_names() -> set[str]:
    """Series that rules make."""
    return {rule["record"] for rule in rules() if "record" in rule}


def queries() -> dict[str, str]:
    """Each query of rules and dashboard by where it stands."""
    found = {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    for annotation in dashboard()["annotations"]["list"]:
        found[f"annotation {annotation['name']}"] = annotation["expr"]
    return found
