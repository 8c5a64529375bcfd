"""The setting that says who may read metrics from another machine; of all services."""

from pathlib import Path

from pydantic import Field

from outrider.metrics_token import BadMetricsToken, MetricsToken
from outrider.settings import BadSettings, Settings


class MetricsSettings(Settings):
    """Base of each service's settings."""

    metrics_token_file: Path | None = Field(
        None, description="file with the token that whoever reads /metrics must send"
    )

    def metrics_token(self) -> MetricsToken | None:
        """The token; None where none is set.

        Raises:
            BadSettings: The file holds none.
        """
        if self.metrics_token_file is None:
            return None
        try:
            return MetricsToken.read(self.metrics_token_file)
        except BadMetricsToken as error:
            text = f"--metrics-token-file {self.metrics_token_file}: {error}"
            raise BadSettings(text) from None
