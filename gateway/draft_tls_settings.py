"""Settings of the gateway that say how it and its draft workers know each other."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from gateway.draft_tls import DraftTlsFiles
from outrider.settings import Settings


class DraftTlsSettings(Settings):
    """Certificates between gateway and draft workers."""

    draft_tls_ca: Path | None = Field(
        None, description="roots of the draft workers' certificates in PEM; none: no TLS to them"
    )
    draft_tls_cert: Path | None = Field(
        None, description="the gateway's certificate chain towards draft workers in PEM"
    )
    draft_tls_key: Path | None = Field(None, description="its private key in PEM, not encrypted")
    draft_tls_name: str = Field(
        "draft", min_length=1, description="the name in the draft workers' certificates"
    )

    @model_validator(mode="after")
    def _check_draft_tls(self) -> Self:
        files = (self.draft_tls_ca, self.draft_tls_cert, self.draft_tls_key)
        if any(files) and not all(files):
            raise ValueError(
                "--draft-tls-ca, --draft-tls-cert and --draft-tls-key go together: draft workers "
                "and gateway ask each other for a certificate; set all three or none"
            )
        return self

    def draft_tls_files(self) -> DraftTlsFiles | None:
        """What TLS to draft workers is made of; None: no TLS."""
        if self.draft_tls_ca is None or self.draft_tls_cert is None or self.draft_tls_key is None:
            return None
        return DraftTlsFiles(
            self.draft_tls_ca, self.draft_tls_cert, self.draft_tls_key, self.draft_tls_name
        )
