"""Which key files a cluster has, what each is for and who needs it. Policy: writes nothing."""

import re
from dataclasses import dataclass

CURVE_ENDS = ("verify", "draft")
GATEWAY_NAME = "gateway"
DEFAULT_DRAFT_NAME = "draft"

VERIFY_SECRET = "curve/verify.key_secret"
VERIFY_PUBLIC = "curve/verify.key"
DRAFT_SECRET = "curve/draft.key_secret"
DRAFT_PUBLIC = "curve/draft.key"
CA_KEY = "tls/ca-key.pem"
CA = "tls/ca.pem"
DRAFT_KEY = "tls/draft-key.pem"
DRAFT_CERT = "tls/draft.pem"
GATEWAY_KEY = "tls/gateway-key.pem"
GATEWAY_CERT = "tls/gateway.pem"
METRICS_TOKEN = "metrics-token"
API_KEYS = "api-keys"

_HOST_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One file.

    Args:
        path: Within the folder.
        is_secret: True: readable by its owner only.
        purpose: What it is for.
        needed_by: Which services read it, and with which setting.
    """

    path: str
    is_secret: bool
    purpose: str
    needed_by: str


FILES = (
    KeyFile(VERIFY_SECRET, True, "CURVE key of all verify workers", "verify worker (--curve-key)"),
    KeyFile(VERIFY_PUBLIC, False, "its public part", "draft worker (--curve-peers, the file)"),
    KeyFile(DRAFT_SECRET, True, "CURVE key of all draft workers", "draft worker (--curve-key)"),
    KeyFile(
        DRAFT_PUBLIC, False, "its public part", "verify worker (--curve-peers, a folder with it)"
    ),
    KeyFile(CA_KEY, True, "signs the certificates below", "nobody who serves; keep it apart"),
    KeyFile(
        CA,
        False,
        "root of the cluster's certificates",
        "gateway (--draft-tls-ca), draft worker (--tls-client-ca)",
    ),
    KeyFile(DRAFT_KEY, True, "key of draft.pem", "draft worker (--tls-key)"),
    KeyFile(DRAFT_CERT, False, "who the draft workers are", "draft worker (--tls-cert)"),
    KeyFile(GATEWAY_KEY, True, "key of gateway.pem", "gateway (--draft-tls-key)"),
    KeyFile(GATEWAY_CERT, False, "who the gateways are", "gateway (--draft-tls-cert)"),
    KeyFile(
        METRICS_TOKEN,
        True,
        "bearer token of the metrics pages",
        "all services (--metrics-token-file), Prometheus",
    ),
    KeyFile(API_KEYS, True, "hashes of API keys", "gateway (--api-keys)"),
)


def check_host_name(name: str) -> str:
    """A name that a certificate can be for.

    Raises:
        ValueError: It is none.
    """
    if not _HOST_NAME.fullmatch(name) or len(name) > 253:
        raise ValueError(f"{name!r} is no host name: small letters, digits and hyphens, with dots")
    return name
