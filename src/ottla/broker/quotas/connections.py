"""How fast connections may be opened: on the broker, on each listener, from each address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.security_image import IP, QuotaKey
from ottla.broker.quotas.budget import Budget
from ottla.broker.quotas.entities import AllQuotas, Tags
from ottla.broker.quotas.settings import SWEEP_INTERVAL_S, UNUSED_S_MAX, QuotaWindows

if TYPE_CHECKING:
    from ottla.broker.quotas.throttling import Tell, ThrottleLog, Throttling
    from ottla.counters import Metric

UNLIMITED: Final = 2**31 - 1
"""Kafka's default of all these limits."""
ADDRESSES_MAX: Final = 10_000
"""Beyond it, addresses from which nothing came lately are forgotten, or all."""

_NOBODY: Final = Tags("", "")
_GROUP: Final = "socket-server-metrics"
_RATE_KEY: Final = "max.connection.creation.rate"


class ConnectionRates:
    def __init__(
        self,
        windows: QuotaWindows,
        now: Callable[[], float],
        tell: Tell = lambda fields: None,
    ) -> None:
        """`tell` logs who is throttled."""
        self._windows = windows
        self._now = now
        self._on_broker = self._budget(UNLIMITED)
        self._on_listeners: dict[str, Budget] = {}
        self._by_address: dict[str, Budget] = {}
        self._quotas: AllQuotas = {}
        self._address_limits: dict[str | None, float] = {}
        """None: the default."""
        self._refusals: dict[str, Throttling] = {}
        """By listener: connections that were refused because of their address."""
        self._tell = tell
        self._log: ThrottleLog | None = None
        self._swept_s = now()
        self._protected: str | None = None

    def configure(self, limit: int, listener_limits: Mapping[str, int], between: str) -> None:
        """Apply the broker's settings. `between` is the listener by which nodes connect: the limit
        of the broker does not count for it, if there are others."""
        self._on_broker.limit = limit
        for name, of_listener in listener_limits.items():
            self._on_listeners.setdefault(name, self._budget(UNLIMITED)).limit = of_listener
        for name in self._on_listeners.keys() - listener_limits.keys():
            del self._on_listeners[name]
            self._refusals.pop(name, None)
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
                self._address_limits[None if name is None else canonical(name)] = limit
        for address, budget in self._by_address.items():
            budget.limit = self._limit_of(address)

    def delay_ms(self, listener: str) -> int:
        """Count a new connection; return how long it has to wait, and with it all that come by the
        same listener."""
        now = self._now()
        on_broker, on_listener = self._on_broker, self._on_listeners.get(listener)
        throttle_ms, limit = 0, on_broker.limit
        if listener != self._protected:
            throttle_ms = on_broker.charge(1, now)
        if on_listener is None:
            return throttle_ms
        if (of_listener_ms := on_listener.charge(1, now)) > throttle_ms:
            throttle_ms, limit = of_listener_ms, on_listener.limit
        if throttle_ms:
            self._note(_RATE_KEY, {"listener": listener}, limit, on_listener, throttle_ms, now)
        return throttle_ms

    def refusal_ms(self, listener: str, address: str) -> int:
        """Return how long to keep a connection that is then closed, because too many come from its
        address; 0 if it is welcome."""
        if not self._address_limits:
            return 0
        address = canonical(address)
        limit = self._limit_of(address)
        if limit >= UNLIMITED:
            return 0
        budget = self._by_address.get(address)
        if budget is None:
            self._make_room()
            budget = self._by_address[address] = self._budget(limit)
        now = self._now()
        throttle_ms = budget.charge(1, now)
        if throttle_ms:
            # A connection that is not served counts nowhere.
            budget.note(-1, now)
            self._refused(listener, address, budget, throttle_ms, now)
            if listener != self._protected:
                self._on_broker.note(-1, now)
            if listener in self._on_listeners:
                self._on_listeners[listener].note(-1, now)
        return throttle_ms

    def _refused(
        self, listener: str, address: str, budget: Budget, throttle_ms: int, now: float
    ) -> None:
        if listener in self._on_listeners:
            if listener not in self._refusals:
                from ottla.broker.quotas.throttling import Throttling

                self._refusals[listener] = Throttling(now)
            self._refusals[listener].note(throttle_ms, now)
        key = QuotaKey.CONNECTION_CREATION_RATE
        self._note(key, {"ip": address}, budget.limit, budget, throttle_ms, now)

    def _note(
        self,
        key: str,
        labels: Mapping[str, str],
        limit: float,
        budget: Budget,
        throttle_ms: int,
        now: float,
    ) -> None:
        if self._log is None:
            from ottla.broker.quotas.throttling import ThrottleLog

            self._log = ThrottleLog(self._tell)
        self._log.note(key, labels, limit, budget, throttle_ms, now)

    def metrics(self) -> Iterator[Metric]:
        """Yield Kafka's metrics: of the broker, its listeners, and addresses that have a quota and
        connected lately."""
        from ottla.broker.quotas.throttling import throttle_time_ms
        from ottla.counters import Metric

        now = self._now()
        rate, throttle_time = "connection-accept-rate", "connection-accept-throttle-time"
        yield Metric(_GROUP, f"broker-{rate}", {}, self._on_broker.per_second(now))
        for name, budget in self._on_listeners.items():
            labels = {"listener": name}
            yield Metric(_GROUP, rate, labels, budget.per_second(now))
            yield Metric(_GROUP, throttle_time, labels, throttle_time_ms(budget, now))
            refusals = self._refusals.get(name)
            average_ms = 0.0 if refusals is None else refusals.average_ms(now)
            yield Metric(_GROUP, f"ip-{throttle_time}", labels, average_ms)
        for address, budget in self._by_address.items():
            if now - budget.last_used_s < UNUSED_S_MAX:
                yield Metric(_GROUP, rate, {"ip": address}, budget.per_second(now))

    def _limit_of(self, address: str) -> float:
        limits = self._address_limits
        return limits.get(address, limits.get(None, UNLIMITED))

    def _budget(self, limit: float) -> Budget:
        return Budget(_NOBODY, limit, self._windows, self._now(), pause_s_max=self._windows.size_s)

    def _make_room(self) -> None:
        now = self._now()
        if len(self._by_address) >= ADDRESSES_MAX:
            kept = self._used_within(self._windows.span_s, now)
            self._by_address = kept if len(kept) < ADDRESSES_MAX * 0.9 else {}
        elif now - self._swept_s >= SWEEP_INTERVAL_S:
            self._swept_s = now
            self._by_address = self._used_within(UNUSED_S_MAX, now)

    def _used_within(self, seconds: float, now: float) -> dict[str, Budget]:
        return {
            address: budget
            for address, budget in self._by_address.items()
            if now - budget.last_used_s < seconds
        }


def canonical(address: str) -> str:
    """Return the address as it is compared: an IPv4 address that came by an IPv6 socket is the IPv4
    address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)
