"""Limits the number of connections: in all, by a listener, and from one address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.quotas.connections import UNLIMITED, canonical

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


STORAGE_FILES_MAX: Final = 65_536


class ConnectionLimits:
    def __init__(
        self,
        total_max: int,
        per_address_max: int,
        overrides: Mapping[str, int],
        listener_max: Mapping[str, int] | None = None,
        between: str = "",
    ) -> None:
        """`listener_max` has the limit of each listener. `between` is the one by which nodes
        connect: the limit of all does not hold it up, if there are others."""
        self.set(total_max, per_address_max, overrides, listener_max or {}, between)
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._total = 0

    @classmethod
    def from_config(cls, config: BrokerConfig, open_files_max: int) -> ConnectionLimits:
        made = cls(UNLIMITED, UNLIMITED, {})
        made.configure(config, open_files_max)
        return made

    def configure(self, config: BrokerConfig, open_files_max: int) -> None:
        """Apply settings that may change at run time; existing connections stay."""
        self.set(
            total_within(config["max.connections"], open_files_max),
            config["max.connections.per.ip"],
            config.max_connections_by_ip,
            {one.name: config.max_connections_of(one.name) for one in config.listeners},
            config.inter_broker_listener_name if config.is_broker else "",
        )

    def set(
        self,
        total_max: int,
        per_address_max: int,
        overrides: Mapping[str, int],
        listener_max: Mapping[str, int],
        between: str,
    ) -> None:
        self.total_max = total_max
        self.per_address_max = per_address_max
        self._overrides = {canonical(address): most for address, most in overrides.items()}
        self._listener_max = listener_max
        self._protected = between if len(listener_max) > 1 else None

    def has_room(self, listener: str) -> bool:
        """True if the listener may accept one more connection."""
        if self._by_listener[listener] >= self._listener_max.get(listener, UNLIMITED):
            return False
        return self.is_protected(listener) or self._total < self.total_max

    def is_protected(self, listener: str) -> bool:
        """True for the listener by which nodes connect, beside others: connections of the others
        are closed for its."""
        return listener == self._protected

    @property
    def excess(self) -> int:
        """How many connections there are beyond the limit of all."""
        return max(0, self._total - self.total_max)

    def limit_of(self, listener: str) -> int:
        """Return the limit that counts for a listener without room, to be logged."""
        return min(self._listener_max.get(listener, UNLIMITED), self.total_max)

    def admit(self, listener: str, address: str) -> str | None:
        """Count a new connection, or return why it is refused."""
        address = canonical(address)
        count = self._by_address[address]
        allowed = self._overrides.get(address, self.per_address_max)
        if count >= allowed:
            return f"{address} has {count} connections of {allowed} (max.connections.per.ip)"
        self._by_address[address] = count + 1
        self._by_listener[listener] += 1
        self._total += 1
        return None

    def leave(self, listener: str, address: str) -> None:
        address = canonical(address)
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def total_within(connections_max: int, open_files_max: int) -> int:
    """Return the limit asked for, reduced so that the logs keep the file descriptors they need:
    clients could otherwise stop the broker by connecting."""
    reserved = min(open_files_max // 2, STORAGE_FILES_MAX)
    return min(connections_max, open_files_max - reserved)
