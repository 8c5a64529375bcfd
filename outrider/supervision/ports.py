"""TCP ports of this machine: which are free now. Owns no listener."""

import errno
import socket


def is_free(host: str, port: int) -> bool:
    """True where nobody listens on the port and we may.

    Raises:
        OSError: The host is not one of this machine, or the port is not allowed to us.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do; without it a port counts as taken for a minute after a restart.
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def free_port(preferred: int, taken: frozenset[int] = frozenset()) -> int:
    """A free port of 127.0.0.1.

    Args:
        preferred: Taken where it is free; 0: any.
        taken: Ports that are promised to others.
    """
    if preferred and preferred not in taken and is_free("127.0.0.1", preferred):
        return preferred
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port
