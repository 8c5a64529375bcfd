"""Settings of the gateway that say who may come in, how, and how much each may use."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from gateway.client_address import read_networks
from gateway.guard import GuardLimits
from gateway.quotas import Quotas
from gateway.rate_limits import Rates
from gateway.usage_file import BadUsageFile, UsageFile
from outrider.api_keys import ApiKey
from outrider.key_file import BadApiKeys, read_api_keys
from outrider.settings import BadSettings, Settings
from outrider.tls import TlsFiles

MAX_PER_MINUTE = 10**12


class GuardSettings(Settings):
    """Keys, TLS, rates and proxies."""

    api_keys: Path | None = Field(
        None, description="file of API keys, a line each, as `outrider keys` makes it"
    )
    api_key_lines: str = Field(
        "", description="such lines themselves instead of a file, with ; or line breaks between"
    )
    usage_file: Path | None = Field(
        None, description="file in which the tokens that keys have used outlive a restart"
    )
    open_to_all: bool = Field(
        False, description="listen beyond this machine without API keys: somebody else must guard"
    )
    tls_cert: Path | None = Field(None, description="certificate chain in PEM; none: no TLS")
    tls_key: Path | None = Field(None, description="its private key in PEM, not encrypted")
    tls_client_ca: Path | None = Field(
        None, description="roots in PEM; clients must then have a certificate of theirs"
    )
    key_requests_per_minute: int = Field(
        0, ge=0, le=MAX_PER_MINUTE, description="of each key, unless its line says another; 0: any"
    )
    key_tokens_per_minute: int = Field(
        0, ge=0, le=MAX_PER_MINUTE, description="of each key, unless its line says another; 0: any"
    )
    address_requests_per_minute: int = Field(
        0, ge=0, le=MAX_PER_MINUTE, description="from one IP address; 0: any"
    )
    address_tokens_per_minute: int = Field(
        0, ge=0, le=MAX_PER_MINUTE, description="from one IP address; 0: any"
    )
    trusted_proxies: str = Field(
        "", description="networks, with commas between, whose X-Forwarded-For is believed"
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, text: str) -> str:
        read_networks(text)
        return text

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key go together; set both or neither")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("--tls-client-ca needs --tls-cert and --tls-key")
        if self.api_keys is not None and self.api_key_lines:
            raise ValueError("--api-keys and --api-key-lines are two sources; set one")
        return self

    @property
    def has_keys(self) -> bool:
        """True where only those with a key may ask."""
        return self.api_keys is not None or bool(self.api_key_lines)

    @property
    def is_guarded(self) -> bool:
        """True where not everybody who can connect may ask, or somebody else sees to that."""
        return self.has_keys or self.tls_client_ca is not None or self.open_to_all

    def read_keys(self) -> list[ApiKey]:
        """The keys of file or lines, as they are now; none where none are set.

        Raises:
            BadSettings: They cannot be used.
        """
        if not self.has_keys:
            return []
        source = f"--api-keys {self.api_keys}" if self.api_keys else "--api-key-lines"
        try:
            if self.api_keys is not None:
                keys = read_api_keys(self.api_keys.read_text(encoding="utf-8"))
            else:
                keys = read_api_keys(self.api_key_lines.replace(";", "\n"))
        except OSError as error:
            raise BadSettings(f"{source}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadSettings(f"{source}: is not text in UTF-8") from None
        except BadApiKeys as error:
            raise BadSettings(f"{source}: {error}") from None
        for key in keys:  # a total that a restart forgets would be none
            if key.allowance.tokens_total is not None and self.usage_file is None:
                text = f"the key of {key.name} has tokens_total, which needs --usage-file"
                raise BadSettings(f"{source}: {text}")
        return keys

    def open_usage(self) -> tuple[Quotas, UsageFile | None]:
        """What keys have used so far, and where that is kept; None: nowhere.

        Raises:
            BadSettings: The file cannot be used.
        """
        if self.usage_file is None:
            return Quotas(), None
        file = UsageFile(self.usage_file)
        try:
            return file.read(), file
        except BadUsageFile as error:
            raise BadSettings(f"--usage-file {self.usage_file}: {error}") from None

    def tls_files(self) -> TlsFiles | None:
        """Where certificate and key are; None: no TLS."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return TlsFiles(self.tls_cert, self.tls_key, self.tls_client_ca)

    def guard_limits(self) -> GuardLimits:
        """What holds for everybody."""
        return GuardLimits(
            Rates(self.key_requests_per_minute, self.key_tokens_per_minute),
            Rates(self.address_requests_per_minute, self.address_tokens_per_minute),
            read_networks(self.trusted_proxies),
        )
