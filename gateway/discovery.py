"""Reads where draft workers are, as the gateway's setting says it."""

from outrider.discovery import DNS_PREFIX, MAX_PORT, Source, is_host_and_port, parse_name


def parse_sources(text: str) -> list[Source]:
    """Reads a setting such as `host:50052, dns:draft.outrider.svc:50052`.

    Args:
        text: Entries separated by commas: `host:port`, or `dns:host:port` for every address behind
            a name.

    Raises:
        ValueError: An entry is neither, or there is none.
    """
    entries = [part.strip() for part in text.split(",") if part.strip()]
    if not entries:
        raise ValueError("names no draft worker")
    return [_parse(entry) for entry in entries]


def host_of(source: Source) -> str:
    """The host or name of an entry, without brackets."""
    host = source.rpartition(":")[0] if isinstance(source, str) else source.host
    return host.strip("[]")


def _parse(entry: str) -> Source:
    if entry.startswith(DNS_PREFIX):
        return parse_name(entry)
    if not is_host_and_port(entry):
        raise ValueError(
            f"{entry!r} must be host:port or {DNS_PREFIX}host:port with a port from 1 to {MAX_PORT}"
        )
    return entry
