"""Reads a process's metrics page on this machine."""

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 2.0


def read_figures(port: int) -> dict[str, float]:
    """All samples of the page by name; of those with labels, the last one; none without a page."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as page:
            text = page.read().decode()
    except OSError:
        return {}
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples}
