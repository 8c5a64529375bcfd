"""Settings of the gateway that say how much it takes on, and how large one request may be."""

from pydantic import Field

from outrider.settings import Settings


class LoadSettings(Settings):
    """Places, queue, times and sizes."""

    max_running_requests: int = Field(
        64, ge=1, le=100_000, description="most requests that are generated at once"
    )
    max_queued_requests: int = Field(
        256, ge=0, le=100_000, description="most requests that wait for a place"
    )
    max_queued_bytes: int = Field(
        64 * 2**20, ge=0, le=2**40, description="most that these hold in memory, bytes"
    )
    default_max_new_tokens: int = Field(
        1024, ge=1, le=2**31 - 1, description="tokens to generate where a request names no number"
    )
    max_deadline_s: float = Field(
        600, gt=0, le=86_400, description="longest time one request may take, seconds"
    )
    max_request_bytes: int = Field(
        4 * 2**20, ge=1024, le=64 * 2**20, description="largest request, bytes"
    )
    max_messages: int = Field(
        4096, ge=1, le=100_000, description="most messages of one conversation"
    )
    max_prompt_chars: int = Field(
        1_000_000, ge=1, le=64 * 2**20, description="most characters of one prompt or conversation"
    )
    read_timeout_s: float = Field(
        30, gt=0, le=3600, description="how long a client may read nothing of its answer, seconds"
    )
    send_timeout_s: float = Field(
        10,
        gt=0,
        le=600,
        description="how long a client may take to open a connection, to send the head of an HTTP "
        "request, and its body, seconds",
    )
    connection_age_s: float = Field(
        0,
        ge=0,
        le=86_400,
        description="age at which a gRPC connection takes no new calls: its client connects anew, "
        "and gateways that were added get their share, seconds; 0: any",
    )
    drain_timeout_s: float = Field(
        20, ge=0, le=3600, description="time that running requests get at the end, seconds"
    )
