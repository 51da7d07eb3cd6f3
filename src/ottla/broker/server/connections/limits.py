"""Limits the number of connections: in all and from one address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


STORAGE_FILES_MAX: Final = 65_536


class ConnectionLimits:
    def __init__(self, total_max: int, per_address_max: int, overrides: Mapping[str, int]) -> None:
        self.total_max = total_max
        self.per_address_max = per_address_max
        self.overrides = overrides
        self._by_address: dict[str, int] = {}
        self._total = 0

    @classmethod
    def from_config(cls, config: BrokerConfig, open_files_max: int) -> ConnectionLimits:
        return cls(
            total_within(config["max.connections"], open_files_max),
            config["max.connections.per.ip"],
            config.max_connections_by_ip,
        )

    @property
    def is_full(self) -> bool:
        return self._total >= self.total_max

    def admit(self, address: str) -> str | None:
        """Count a new connection, or return why it is refused."""
        count = self._by_address.get(address, 0)
        allowed = self.overrides.get(address, self.per_address_max)
        if count >= allowed:
            return f"{address} has {count} connections of {allowed} (max.connections.per.ip)"
        self._by_address[address] = count + 1
        self._total += 1
        return None

    def leave(self, address: str) -> None:
        self._total -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]


def total_within(connections_max: int, open_files_max: int) -> int:
    """Return the limit asked for, reduced so that the logs keep the file descriptors they need:
    clients could otherwise stop the broker by connecting."""
    reserved = min(open_files_max // 2, STORAGE_FILES_MAX)
    return min(connections_max, open_files_max - reserved)
