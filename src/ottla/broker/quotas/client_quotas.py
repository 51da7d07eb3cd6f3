"""The budgets of a broker's clients: bytes produced, bytes fetched, and time of requests.

A budget is shared by all connections whose clients have the same tags. Only clients with a quota
have one, so that others cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.quotas.budget import Budget
from ottla.broker.quotas.entities import NAME_KEPT_MAX, AllQuotas, Tags, bound_of, labels_of
from ottla.broker.quotas.settings import SWEEP_INTERVAL_S, UNUSED_S_MAX, QuotaWindows

if TYPE_CHECKING:
    from ottla.broker.quotas.throttling import Tell, ThrottleLog
    from ottla.counters import Metric

BUDGETS_MAX: Final = 10_000
"""Beyond it the budgets that were unused for longest are forgotten, with what was used."""
BUDGETS_KEPT: Final = 9_000
CLIENTS_REMEMBERED_MAX: Final = 10_000

KEYS: Final = (
    QuotaKey.PRODUCER_BYTE_RATE,
    QuotaKey.CONSUMER_BYTE_RATE,
    QuotaKey.REQUEST_PERCENTAGE,
)

_METRICS: Final = {
    QuotaKey.PRODUCER_BYTE_RATE: ("Produce", "byte-rate"),
    QuotaKey.CONSUMER_BYTE_RATE: ("Fetch", "byte-rate"),
    QuotaKey.REQUEST_PERCENTAGE: ("Request", "request-time"),
}
"""Kafka's group and name of what is measured."""
_NOBODY: Final = Tags("", "")


class Allowance:
    """The budgets of one client; None for what is not limited."""

    __slots__ = ("fetched", "produced", "requests")

    def __init__(
        self, produced: Budget | None, fetched: Budget | None, requests: Budget | None
    ) -> None:
        self.produced = produced
        self.fetched = fetched
        self.requests = requests
        """In percent of the event loop's time."""


class ClientQuotas:
    def __init__(
        self,
        windows: QuotaWindows,
        now: Callable[[], float],
        tell: Tell = lambda fields: None,
    ) -> None:
        """`tell` logs who is throttled."""
        self.now = now
        self._windows = windows
        self._quotas: AllQuotas = {}
        self._keys: frozenset[QuotaKey] = frozenset()
        self._budgets: dict[tuple[QuotaKey, Tags], Budget] = {}
        self._allowances: dict[tuple[str, str], Allowance | None] = {}
        self._tell = tell
        self._log: ThrottleLog | None = None
        self._swept_s = now()
        self.exempt = Allowance(None, None, Budget(_NOBODY, math.inf, windows, now()))
        """Measures the requests of other nodes, to which no quota applies."""
        self.counts_exempt = False
        """True if there are quotas of request time: only then are exempt requests measured."""
        self.is_active = False
        """True if there is a quota that any client could have, also one that the controller keeps:
        its clients are muted here."""

    def take(self, quotas: AllQuotas) -> None:
        """Apply the quotas of newer metadata. What was used stays known."""
        if quotas is self._quotas:
            return
        self._quotas = quotas
        used = {key for values in quotas.values() for key in values}
        self._keys = frozenset(key for key in KEYS if key in used)
        self.is_active = not used.isdisjoint((*KEYS, QuotaKey.CONTROLLER_MUTATION_RATE))
        self.counts_exempt = QuotaKey.REQUEST_PERCENTAGE in used
        self._allowances.clear()

    def allowance(self, user: str, client_id: str) -> Allowance | None:
        """Return the budgets of a client, or None if it has none."""
        client = user, client_id
        try:
            return self._allowances[client]
        except KeyError:
            pass
        if len(self._allowances) >= CLIENTS_REMEMBERED_MAX:
            self._allowances.clear()
        self._make_room()
        budgets = [self._budget(key, user, client_id) for key in KEYS]
        found = Allowance(*budgets) if any(budgets) else None
        if len(user) + len(client_id) <= 2 * NAME_KEPT_MAX:
            self._allowances[client] = found
        return found

    def throttled(self, key: QuotaKey, budget: Budget, throttle_ms: int, now: float) -> None:
        """Count and log a request that has to wait."""
        if self._log is None:
            from ottla.broker.quotas.throttling import ThrottleLog

            self._log = ThrottleLog(self._tell)
        self._log.note(key, labels_of(budget.tags), budget.limit, budget, throttle_ms, now)

    def metrics(self) -> Iterator[Metric]:
        """Yield Kafka's metrics of all clients that have a quota and used it lately."""
        from ottla.broker.quotas.throttling import throttle_time_ms
        from ottla.counters import Metric

        now = self.now()
        for (key, tags), budget in self._budgets.items():
            if now - budget.last_used_s < UNUSED_S_MAX:
                group, name = _METRICS[key]
                labels = labels_of(tags)
                yield Metric(group, name, labels, budget.per_second(now))
                yield Metric(group, "throttle-time", labels, throttle_time_ms(budget, now))
        if self.counts_exempt:
            assert self.exempt.requests is not None
            rate = self.exempt.requests.per_second(now)
            yield Metric("Request", "exempt-request-time", {}, rate)

    def _budget(self, key: QuotaKey, user: str, client_id: str) -> Budget | None:
        if key not in self._keys:
            return None
        bound = bound_of(self._quotas, key, user, client_id)
        if bound is None:
            return None
        place = key, bound.tags
        budget = self._budgets.get(place)
        if budget is None:
            pause_s_max = math.inf
            if key is QuotaKey.REQUEST_PERCENTAGE:
                pause_s_max = self._windows.size_s
            budget = self._budgets[place] = Budget(
                bound.tags, bound.limit, self._windows, self.now(), pause_s_max=pause_s_max
            )
        budget.limit = bound.limit
        return budget

    def _make_room(self) -> None:
        if len(self._budgets) > BUDGETS_MAX - len(KEYS):
            self._forget_some()
        elif self.now() - self._swept_s >= SWEEP_INTERVAL_S:
            self._forget_unused()

    def _forget_unused(self) -> None:
        now = self._swept_s = self.now()
        self._keep(
            {
                place: budget
                for place, budget in self._budgets.items()
                if now - budget.last_used_s < UNUSED_S_MAX
            }
        )

    def _forget_some(self) -> None:
        now = self.now()
        kept = {
            place: budget for place, budget in self._budgets.items() if not budget.is_forgotten(now)
        }
        if len(kept) > BUDGETS_KEPT:
            latest = sorted(kept.items(), key=lambda item: item[1].last_used_s)
            kept = dict(latest[len(kept) - BUDGETS_KEPT :])
        self._keep(kept)

    def _keep(self, kept: dict[tuple[QuotaKey, Tags], Budget]) -> None:
        if len(kept) == len(self._budgets):
            return
        self._budgets = kept
        # They may refer to budgets that are forgotten, beside which there would be new ones.
        self._allowances.clear()
