"""Reads metrics pages: of processes on this machine by their port, of others by their address."""

import ssl
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 2.0
FETCH_TIMEOUT_S = 5.0


def read_figures(port: int) -> dict[str, float]:
    """All samples of the page by name; of those with labels, the last one; none without a page."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as page:
            text = page.read().decode()
    except OSError:
        return {}
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples}


def fetch_figures(
    url: str, token: str = "", context: ssl.SSLContext | None = None
) -> dict[str, float]:
    """All samples of a page by name, those with labels summed.

    Args:
        url: Of the page.
        token: Bearer token; "": none.
        context: Of https; None: the system's.

    Raises:
        OSError: There is no page.
        ValueError: It is none of metrics, or the address is none.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = Request(url, headers=headers)
    with urlopen(request, timeout=FETCH_TIMEOUT_S, context=context) as page:
        text = page.read().decode()
    figures: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            figures[sample.name] = figures.get(sample.name, 0.0) + sample.value
    return figures
