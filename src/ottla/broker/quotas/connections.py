"""How fast connections may be opened: on the broker, on each listener, from each address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final

from ottla.broker.metadata.security_image import IP, QuotaKey
from ottla.broker.quotas.budget import Budget
from ottla.broker.quotas.entities import AllQuotas, Tags
from ottla.broker.quotas.settings import QuotaWindows

UNLIMITED: Final = 2**31 - 1
"""Kafka's default of all these limits."""
ADDRESSES_MAX: Final = 10_000
"""Beyond it, addresses from which nothing came lately are forgotten, or all."""

_NOBODY: Final = Tags("", "")


class ConnectionRates:
    def __init__(self, windows: QuotaWindows, now: Callable[[], float]) -> None:
        self._windows = windows
        self._now = now
        self._on_broker = self._budget(UNLIMITED)
        self._on_listeners: dict[str, Budget] = {}
        self._by_address: dict[str, Budget] = {}
        self._quotas: AllQuotas = {}
        self._address_limits: dict[str | None, float] = {}
        """None: the default."""
        self._protected: str | None = None

    def configure(self, limit: int, listener_limits: Mapping[str, int], between: str) -> None:
        """Apply the broker's settings. `between` is the listener by which nodes connect: the limit
        of the broker does not count for it, if there are others."""
        self._on_broker.limit = limit
        for name, of_listener in listener_limits.items():
            self._on_listeners.setdefault(name, self._budget(UNLIMITED)).limit = of_listener
        for name in self._on_listeners.keys() - listener_limits.keys():
            del self._on_listeners[name]
        self._protected = between if len(listener_limits) > 1 else None

    def take(self, quotas: AllQuotas) -> None:
        """Apply the quotas of newer metadata."""
        if quotas is self._quotas:
            return
        self._quotas = quotas
        self._address_limits = {}
        for entity, values in quotas.items():
            limit = values.get(QuotaKey.CONNECTION_CREATION_RATE)
            if limit is not None and len(entity) == 1 and entity[0][0] == IP:
                name = entity[0][1]
                self._address_limits[None if name is None else _canonical(name)] = limit
        for address, budget in self._by_address.items():
            budget.limit = self._limit_of(address)

    def delay_ms(self, listener: str) -> int:
        """Count a new connection; return how long it has to wait, and with it all that come by the
        same listener."""
        budgets = [] if listener == self._protected else [self._on_broker]
        if listener in self._on_listeners:
            budgets.append(self._on_listeners[listener])
        now = self._now()
        return max((b.charge(1, now) for b in budgets if b.limit < UNLIMITED), default=0)

    def refusal_ms(self, listener: str, address: str) -> int:
        """Return how long to keep a connection that is then closed, because too many come from its
        address; 0 if it is welcome."""
        if not self._address_limits:
            return 0
        address = _canonical(address)
        limit = self._limit_of(address)
        if limit >= UNLIMITED:
            return 0
        budget = self._by_address.get(address)
        if budget is None:
            if len(self._by_address) >= ADDRESSES_MAX:
                self._forget_some()
            budget = self._by_address[address] = self._budget(limit)
        now = self._now()
        throttle_ms = budget.charge(1, now)
        if throttle_ms:
            # A connection that is not served counts nowhere.
            budget.note(-1, now)
            budget.throttled += 1
            if listener != self._protected:
                self._take_back(self._on_broker, now)
            if listener in self._on_listeners:
                self._take_back(self._on_listeners[listener], now)
        return throttle_ms

    def _take_back(self, budget: Budget, now: float) -> None:
        if budget.limit < UNLIMITED:
            budget.note(-1, now)

    def _limit_of(self, address: str) -> float:
        limits = self._address_limits
        return limits.get(address, limits.get(None, UNLIMITED))

    def _budget(self, limit: float) -> Budget:
        return Budget(_NOBODY, limit, self._windows, self._now(), pause_s_max=self._windows.size_s)

    def _forget_some(self) -> None:
        now = self._now()
        kept = {
            address: budget
            for address, budget in self._by_address.items()
            if not budget.is_forgotten(now)
        }
        self._by_address = kept if len(kept) < ADDRESSES_MAX * 0.9 else {}


def _canonical(address: str) -> str:
    """Return the address as it is compared: an IPv4 address that came by an IPv6 socket is the IPv4
    address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)
