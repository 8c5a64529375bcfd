"""The way in: who asks and whether it may, and in the end what it has cost.

Shell: reads the clocks. What is decided is decided in `outrider/api_keys.py`, `rate_limits.py`,
`quotas.py` and `client_address.py`, for gRPC and HTTP alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.client_address import Network, client_address
from gateway.quotas import Quotas
from gateway.rate_limits import UNBOUNDED, RateLimits, Rates
from outrider.api_keys import NOBODY, Access, ApiKey, Permission
from outrider.protocol.errors import OutriderError
from outrider.telemetry.metrics import GatewayMetrics

MAX_NAMES = 16_384  # of keys, and of addresses; about 10 MB


@dataclass(frozen=True, slots=True)
class Approach:
    """How a call comes in; nothing of it is believed yet.

    Args:
        authorization: Header or metadata of that name; "" where there is none.
        peer: Address at the other end of the connection.
        forwarded_for: X-Forwarded-For; "" where there is none.
    """

    authorization: str
    peer: str
    forwarded_for: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was let in.

    Args:
        key: Whose key it is; NOBODY where no keys are set.
        address: Where from, as addresses are counted.
    """

    key: ApiKey = NOBODY
    address: str = ""

    @property
    def tenant(self) -> str:
        """The name of the key; "" where no keys are set."""
        return self.key.name

    @property
    def line(self) -> str:
        """Which line of the queue it waits in: its key's, or else its address's."""
        return f"key {self.key.name}" if self.key.name else f"address {self.address}"


ANYBODY = Caller()


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """What holds for everybody, where a key's own line says nothing else.

    Args:
        key_rates: Of each key.
        address_rates: Of each address.
        proxies: Networks whose X-Forwarded-For is believed.
    """

    key_rates: Rates = UNBOUNDED
    address_rates: Rates = UNBOUNDED
    proxies: Sequence[Network] = ()


class Guard:
    """Lets callers in and counts what they use.

    Args:
        access: Known keys.
        metrics: Counts who was sent away.
        limits: For everybody.
        quotas: What keys have used so far.
        monotonic: Seconds, on a clock that never goes back.
        unix_time: Seconds since 1970.
    """

    def __init__(
        self,
        access: Access,
        metrics: GatewayMetrics,
        limits: GuardLimits | None = None,
        quotas: Quotas | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._metrics = metrics
        self._limits = limits or GuardLimits()
        self._quotas = quotas or Quotas()
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._keys = RateLimits("key", MAX_NAMES)
        self._addresses = RateLimits("address", MAX_NAMES)

    def admit(self, approach: Approach, permission: Permission) -> Caller:
        """Lets somebody in, or says why not.

        Args:
            approach: How the call came.
            permission: What it is for; only what generates is counted and limited.

        Raises:
            Unauthenticated: No known key.
            Forbidden: The key is not for this.
            RateLimited: The key or the address has used up its minute.
            QuotaSpent: The key has used up its tokens.
        """
        try:
            return self._admit(approach, permission)
        except OutriderError as error:
            self._metrics.requests.labels(outcome=error.reason.lower()).inc()
            raise

    def charge(self, caller: Caller, tokens: int) -> None:
        """Counts what a request has cost, however it ended.

        Args:
            caller: Who asked.
            tokens: Of the prompt, where it was run, and of all that was sent.
        """
        if not tokens:
            return
        now = self._monotonic()
        self._addresses.take_tokens(caller.address, self._limits.address_rates, tokens, now)
        if caller.key is not NOBODY:
            self._keys.take_tokens(caller.key.name, self._rates_of(caller.key), tokens, now)
            self._quotas.take(caller.key.name, tokens, self._unix_time())

    def _admit(self, approach: Approach, permission: Permission) -> Caller:
        key = self._access.admit(approach.authorization, permission)
        limits = self._limits
        address = client_address(approach.peer, approach.forwarded_for, limits.proxies)
        if permission is not Permission.GENERATE:
            return Caller(key, address)
        now = self._monotonic()
        # All are asked before anything is taken: a refusal costs nothing.
        self._addresses.check(address, limits.address_rates, now)
        if key is not NOBODY:
            rates = self._rates_of(key)
            self._quotas.check(key, self._unix_time())
            self._keys.check(key.name, rates, now)
            self._keys.take_request(key.name, rates, now)
        self._addresses.take_request(address, limits.address_rates, now)
        return Caller(key, address)

    def _rates_of(self, key: ApiKey) -> Rates:
        own, default = key.allowance, self._limits.key_rates
        requests, tokens = own.requests_per_minute, own.tokens_per_minute
        return Rates(
            default.requests_per_minute if requests is None else requests,
            default.tokens_per_minute if tokens is None else tokens,
        )
