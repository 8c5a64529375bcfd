"""The rules once more, as an object of the Prometheus operator: kustomize cannot embed a file."""

from textwrap import indent

from tests.contract.monitoring_files import RULE_FILES

HEAD = """\
# Made by `make generated` from ../rules; change those.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: outrider
spec:
  groups:
"""


def prometheus_rule() -> str:
    """The object, with the groups of all rule files."""
    parts = [file.read_text(encoding="utf-8") for file in RULE_FILES]
    groups = [part.partition("\ngroups:\n")[2] for part in parts]
    return HEAD + indent("\n".join(groups), "  ")
