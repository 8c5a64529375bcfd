"""The secret that whoever reads metrics from another machine must send.

Shell: has the file read, once. The secret itself is not kept.
"""

import hmac
from pathlib import Path

from outrider.api_keys import bearer_secret, digest_of

MIN_CHARS = 16
MAX_CHARS = 1024


class BadMetricsToken(ValueError):
    """A file that holds no token; the message says why, and never quotes it."""


class MetricsToken:
    """Knows whether a reader has it.

    Args:
        token: 16 to 1024 printable characters without blanks.

    Raises:
        BadMetricsToken: It is shorter, longer or not of this form.
    """

    def __init__(self, token: str) -> None:
        if not MIN_CHARS <= len(token) <= MAX_CHARS:
            raise BadMetricsToken(
                f"must hold one token of {MIN_CHARS} to {MAX_CHARS} characters, not {len(token)}; "
                "`openssl rand -hex 32` makes one"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise BadMetricsToken("must hold one token: printable ASCII without blanks")
        self._digest = digest_of(token)

    @classmethod
    def read(cls, path: Path) -> "MetricsToken":
        """Takes the token from a file, without blanks and line breaks around it.

        Raises:
            BadMetricsToken: There is none in it.
        """
        try:
            # One that is no token may be of any size.
            with path.open(encoding="utf-8") as file:
                text = file.read(2 * MAX_CHARS)
        except OSError as error:
            raise BadMetricsToken(str(error.strerror)) from None
        except UnicodeDecodeError:
            raise BadMetricsToken("is not text in UTF-8") from None
        return cls(text.strip())

    def admits(self, authorization: str) -> bool:
        """True where a reader's header `Authorization` bears the token."""
        return hmac.compare_digest(self._digest, digest_of(bearer_secret(authorization)))
