"""The budgets of a broker's clients: bytes produced, bytes fetched, and time of requests.

A budget is shared by all connections whose clients have the same tags. Only clients with a quota
have one, so that others cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from ottla.broker.metadata.security_image import QuotaKey
from ottla.broker.quotas.budget import Budget
from ottla.broker.quotas.entities import AllQuotas, Tags, bound_of
from ottla.broker.quotas.settings import QuotaWindows

BUDGETS_MAX: Final = 10_000
"""Beyond it the budgets that were unused for longest are forgotten, with what was used."""
BUDGETS_KEPT: Final = 9_000
CLIENTS_REMEMBERED_MAX: Final = 10_000

KEYS: Final = (
    QuotaKey.PRODUCER_BYTE_RATE,
    QuotaKey.CONSUMER_BYTE_RATE,
    QuotaKey.REQUEST_PERCENTAGE,
)

T = TypeVar("T")


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
    def __init__(self, windows: QuotaWindows, now: Callable[[], float]) -> None:
        self.now = now
        self._windows = windows
        self._quotas: AllQuotas = {}
        self._keys: frozenset[QuotaKey] = frozenset()
        self._budgets: dict[tuple[QuotaKey, Tags], Budget] = {}
        self._allowances: dict[tuple[str, str], Allowance | None] = {}
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
        budgets = [self._budget(key, user, client_id) for key in KEYS]
        found = Allowance(*budgets) if any(budgets) else None
        self._allowances[client] = found
        return found

    def budgets(self) -> Iterator[tuple[QuotaKey, Budget]]:
        for (key, _), budget in self._budgets.items():
            yield key, budget

    def _budget(self, key: QuotaKey, user: str, client_id: str) -> Budget | None:
        if key not in self._keys:
            return None
        bound = bound_of(self._quotas, key, user, client_id)
        if bound is None:
            return None
        place = key, bound.tags
        budget = self._budgets.get(place)
        if budget is None:
            if len(self._budgets) >= BUDGETS_MAX:
                self._forget_some()
            pause_s_max = math.inf
            if key is QuotaKey.REQUEST_PERCENTAGE:
                pause_s_max = self._windows.size_s
            budget = self._budgets[place] = Budget(
                bound.tags, bound.limit, self._windows, self.now(), pause_s_max=pause_s_max
            )
        budget.limit = bound.limit
        return budget

    def _forget_some(self) -> None:
        now = self.now()
        kept = {
            place: budget for place, budget in self._budgets.items() if not budget.is_forgotten(now)
        }
        if len(kept) > BUDGETS_KEPT:
            latest = sorted(kept.items(), key=lambda item: item[1].last_used_s)
            kept = dict(latest[len(kept) - BUDGETS_KEPT :])
        self._budgets = kept
        # They may refer to budgets that are forgotten, beside which there would be new ones.
        self._allowances.clear()
