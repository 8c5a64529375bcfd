"""Where features come from, what they weigh, and whether keeping them pays. Pure."""

from dataclasses import dataclass
from enum import StrEnum

FEATURE_BYTES = 2  # bfloat16
TARGET_BYTES = 4 + 2  # int32 draft id, float16 probability
FREE_SHARE = 0.8  # of the free disk space; the rest is for checkpoints and everybody else


class FeatureMode(StrEnum):
    """Where the features of a training pass come from."""

    AUTO = "auto"
    STORED = "stored"
    ONLINE = "online"


@dataclass(frozen=True, slots=True)
class FeatureCosts:
    """What was measured on the first shard, seconds per token.

    Args:
        capture_s: The target runs.
        write_s: A captured token goes to disk.
        read_s: It comes back.
    """

    capture_s: float
    write_s: float
    read_s: float


def bytes_per_token(feature_size: int, top_k: int) -> int:
    """Stored bytes of one token: its features and the target's likeliest next tokens."""
    return feature_size * FEATURE_BYTES + top_k * TARGET_BYTES


def fits(needed_bytes: int, free_bytes: int) -> bool:
    """True where so much may be stored."""
    return needed_bytes <= free_bytes * FREE_SHARE


def storing_pays(costs: FeatureCosts, passes: int) -> bool:
    """Compares storing once and reading in each pass with running the target in each pass.

    Args:
        costs: As measured.
        passes: Times that each token is trained on, at least 1.
    """
    stored = costs.capture_s + costs.write_s + passes * costs.read_s
    return stored < passes * costs.capture_s
