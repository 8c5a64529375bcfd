"""Events of a verify worker since its start; the names are those of the metrics."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counters:
    """Plain counts that only grow."""

    preemptions: int = 0
    prefix_rows: int = 0
    prefix_hit_rows: int = 0
    stale_messages: int = 0
    bad_frames: int = 0
    expired_leases: int = 0

    def changes_since(self, earlier: "Counters") -> dict[str, int]:
        """How much each count has grown; `earlier` is then brought up to date."""
        changes = {}
        for field in fields(self):
            value = getattr(self, field.name)
            changes[field.name] = value - getattr(earlier, field.name)
            setattr(earlier, field.name, value)
        return changes
