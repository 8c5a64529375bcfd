"""Which files are generated, and by what."""

from collections.abc import Callable
from pathlib import Path

from tests.contract.generated.prometheus_rule import prometheus_rule
from tests.contract.generated.settings_page import settings_page
from tests.contract.monitoring_files import MONITORING, ROOT

FILES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "settings.md": settings_page,
    MONITORING / "operator" / "prometheus-rule.yaml": prometheus_rule,
}
