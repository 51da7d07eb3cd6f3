"""Charges a request to the budgets of its client, and tells how long the connection is muted.

As in Kafka the answer is sent first, with `throttle_time_ms`, and then the connection is muted for
that long: clients that know of it wait by themselves, and others are made to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.broker.quotas.client_quotas import Allowance
from ottla.broker.server.pending import Pending
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.quotas.budget import Budget
    from ottla.broker.quotas.client_quotas import ClientQuotas
    from ottla.broker.server.context import NodeContext
    from ottla.runtime.runtime import Runtime

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
        "_now",
        "_produced_bytes",
        "_settled",
        "_started_s",
        "spent_s",
        "throttle_ms",
    )

    def __init__(self, quotas: ClientQuotas, allowance: Allowance, produced_bytes: int) -> None:
        self._allowance = allowance
        self._produced_bytes = produced_bytes
        self._now = quotas.now
        self._started_s = self._now()
        self._settled = False
        self.spent_s = 0.0
        """How long the request was worked on. Waiting does not count, nor do the slices in which a
        large request is decoded and encoded."""
        self.throttle_ms = 0
        """For how long the connection must be muted; known when the request is settled."""

    def interrupt(self) -> None:
        """The answer comes later: what follows is no work for this request."""
        self.spent_s += self._now() - self._started_s

    def settle(self, response: Any) -> None:
        """Charge the request, once, and tell the client in the response. None: it expects none."""
        if self._settled:
            return
        self._settled = True
        now = self._now()
        told_ms = getattr(response, "throttle_time_ms", 0)
        throttle_ms: int = max(told_ms, self._charge_produced(now), self._charge_time(now))
        if throttle_ms > told_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        self.throttle_ms = throttle_ms

    def waive(self) -> None:
        """Charge nothing: the request is one of another node."""
        self._settled = True

    def settle_at_once(self, response: Any) -> None:
        self.interrupt()
        self.settle(response)

    def _charge_produced(self, now: float) -> int:
        budget = self._allowance.produced
        if budget is None or not self._produced_bytes:
            return 0
        return _noted(budget, budget.charge(self._produced_bytes, now))

    def _charge_time(self, now: float) -> int:
        budget = self._allowance.requests
        if budget is None:
            return 0
        return _noted(budget, budget.charge(self.spent_s * PERCENT_PER_S, now))


def _noted(budget: Budget, throttle_ms: int) -> int:
    if throttle_ms:
        budget.throttled += 1
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
