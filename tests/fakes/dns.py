"""A resolver without a network."""

from collections.abc import Sequence


class FakeDns:
    """Names whose addresses a test moves; one without any cannot be looked up.

    Args:
        addresses: By the first label of the name.
    """

    def __init__(self, **addresses: Sequence[str]) -> None:
        self.addresses = addresses

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        found = self.addresses.get(host.partition(".")[0])
        if not found:
            raise OSError("no such name")
        return found
