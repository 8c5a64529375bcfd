"""How many tokens each key has used, today and ever, and whether it may use more.

Policy: no clock, no file; `usage_file.py` keeps what is counted here. Days are those of UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.api_keys import ApiKey
from outrider.protocol.errors import QuotaSpent

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Usage:
    """What one key has used.

    Args:
        day: The day that `day_tokens` belongs to, counted from 1970.
        day_tokens: Tokens on that day.
        total_tokens: Tokens ever.
    """

    day: int = 0
    day_tokens: int = 0
    total_tokens: int = 0

    def on(self, day: int) -> "Usage":
        """The same as seen on a day: a new one begins at 0."""
        return self if day == self.day else Usage(day, 0, self.total_tokens)


class Quotas:
    """The usage of all keys.

    Args:
        usage: By the name of the key, as counted before.
    """

    def __init__(self, usage: Mapping[str, Usage] | None = None) -> None:
        self._usage = dict(usage or {})

    @property
    def usage(self) -> Mapping[str, Usage]:
        """By the name of the key."""
        return dict(self._usage)

    def check(self, key: ApiKey, unix_s: float) -> None:
        """Refuses a key that has used up what it was given.

        Args:
            key: Who asks.
            unix_s: Seconds since 1970.

        Raises:
            QuotaSpent: It has; says until when, where that is known.
        """
        per_day, total = key.allowance.tokens_per_day, key.allowance.tokens_total
        used = self._usage.get(key.name, Usage()).on(int(unix_s // DAY_S))
        if total is not None and used.total_tokens >= total:
            raise QuotaSpent(f"this key has used its {total} tokens")
        if per_day is not None and used.day_tokens >= per_day:
            left_s = DAY_S - unix_s % DAY_S
            raise QuotaSpent(f"this key has used its {per_day} tokens of today (UTC)", left_s)

    def take(self, name: str, count: int, unix_s: float) -> None:
        """Counts what a request of a key has cost."""
        day = int(unix_s // DAY_S)
        used = self._usage.get(name, Usage()).on(day)
        self._usage[name] = Usage(day, used.day_tokens + count, used.total_tokens + count)
