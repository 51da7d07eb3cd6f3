"""Charges a request to the budgets of its client, and tells how long the connection is muted.

As in Kafka the answer is sent first, with `throttle_time_ms`, and then the connection is muted for
that long: clients that know of it wait by themselves, and others are made to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.quotas.client_quotas import Allowance
from ottla.broker.server.pending import Pending
from ottla.logs import get_logger, shortened
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.quotas.client_quotas import ClientQuotas
    from ottla.broker.server.context import NodeContext
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.quotas")

PERCENT_PER_S: Final = 100.0
_CHARGED_BY_CONTROLLER: Final = frozenset(
    {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS}
)
"""Its response says for how long the client is throttled."""
_UNLIMITED: Final = Allowance(None, None, None)


class Meter:
    """The charges of one request. Requests of clients without quotas have no meter."""

    __slots__ = (
        "_allowance",
        "_produced_bytes",
        "_quotas",
        "_settled",
        "_started_s",
        "spent_s",
        "throttle_ms",
    )

    def __init__(self, quotas: ClientQuotas, allowance: Allowance, produced_bytes: int) -> None:
        self._allowance = allowance
        self._produced_bytes = produced_bytes
        self._quotas = quotas
        self._started_s = quotas.now()
        self._settled = False
        self.spent_s = 0.0
        """How long the request was worked on. Waiting does not count, nor do the slices in which a
        large request is decoded and encoded."""
        self.throttle_ms = 0
        """For how long the connection must be muted; known when the request is settled."""

    def interrupt(self) -> None:
        """The answer comes later: what follows is no work for this request."""
        self.spent_s += self._quotas.now() - self._started_s

    def settle(self, response: Any) -> None:
        """Charge the request, once, and tell the client in the response. None: it expects none."""
        if self._settled:
            return
        self._settled = True
        now = self._quotas.now()
        told_ms = getattr(response, "throttle_time_ms", 0)
        throttle_ms: int = max(told_ms, self._charge_produced(now), self._charge_time(now))
        if throttle_ms > told_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        self.throttle_ms = throttle_ms

    def exempt(self) -> None:
        """Charge nobody: the request is one of another node. Its time is counted."""
        self._allowance = self._quotas.exempt

    def settle_at_once(self, response: Any) -> None:
        self.interrupt()
        self.settle(response)

    def _charge_produced(self, now: float) -> int:
        budget = self._allowance.produced
        if budget is None or not self._produced_bytes:
            return 0
        throttle_ms = budget.charge(self._produced_bytes, now)
        if throttle_ms:
            self._quotas.throttled(QuotaKey.PRODUCER_BYTE_RATE, budget, throttle_ms, now)
        return throttle_ms

    def _charge_time(self, now: float) -> int:
        budget = self._allowance.requests
        if budget is None:
            return 0
        throttle_ms = budget.charge(self.spent_s * PERCENT_PER_S, now)
        if throttle_ms:
            self._quotas.throttled(QuotaKey.REQUEST_PERCENTAGE, budget, throttle_ms, now)
        return throttle_ms


def meter_of(quotas: ClientQuotas, context: NodeContext, frame_bytes: int) -> Meter | None:
    """Return the meter of a request, or None if it is charged to nobody."""
    allowance = quotas.allowance(context.caller.principal.name, context.client_id or "")
    if allowance is None:
        if context.api_key not in _CHARGED_BY_CONTROLLER:
            return None
        allowance = _UNLIMITED
    produced_bytes = frame_bytes if context.api_key == ApiKey.PRODUCE else 0
    return Meter(quotas, allowance, produced_bytes)


def exempt_meter(quotas: ClientQuotas) -> Meter:
    """Return the meter of a request of another node, whose time is only counted."""
    return Meter(quotas, quotas.exempt, 0)


def log_throttled(fields: dict[str, object]) -> None:
    """Say who has to wait for how long, and why."""
    log.info(
        "throttled by a quota",
        **{
            name: shortened(value) if isinstance(value, str) else value
            for name, value in fields.items()
        },
    )


class Mute(Pending):
    """Stands behind the answers that a client is owed until the throttle time is over, and holds
    its connection like an answer that is still to come."""

    __slots__ = ("_timer",)

    def __init__(self, runtime: Runtime, throttle_ms: int) -> None:
        super().__init__()
        self._timer = runtime.call_later(throttle_ms / 1000, self.resolve, None)

    def abandon(self) -> None:
        super().abandon()
        self._timer.cancel()
