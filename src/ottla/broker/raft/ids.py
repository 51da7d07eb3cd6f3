"""Small values used everywhere: ids, addresses, and positions in the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ottla.protocol.uuids import ZERO_UUID

NO_LEADER = -1
CLUSTER_METADATA = "__cluster_metadata"


class OffsetAndEpoch(NamedTuple):
    """The end of a log, or the id of a snapshot: the next offset, and the epoch before it."""

    offset: int
    epoch: int

    def is_behind(self, other: OffsetAndEpoch) -> bool:
        """True if a log that ends here may lack records that a log ending at `other` has."""
        return (self.epoch, self.offset) < (other.epoch, other.offset)


class ReplicaKey(NamedTuple):
    """A node and the directory of its log: with another disk it is another replica."""

    id: int
    directory: bytes | None = None

    @classmethod
    def of(cls, node_id: int, directory: bytes) -> ReplicaKey:
        """Return the key in a message, in which zeros stand for an unknown directory."""
        return cls(node_id, None if directory == ZERO_UUID else bytes(directory))

    @property
    def directory_bytes(self) -> bytes:
        return ZERO_UUID if self.directory is None else self.directory

    def matches(self, other: ReplicaKey) -> bool:
        """True if `other` is this replica; a key without a directory matches any directory."""
        return self.id == other.id and self.directory in (None, other.directory)


class Node(NamedTuple):
    """The destination of a request. Bootstrap servers, whose ids are unknown, have negative
    ones."""

    id: int
    host: str
    port: int


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int


class NamedEndpoint(Protocol):
    """An endpoint in messages of the protocol."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]
"""Sorted, at most one per listener."""


def endpoints_of(named: Iterable[NamedEndpoint]) -> Endpoints:
    return tuple(sorted(Endpoint(each.name, each.host, each.port) for each in named))


def node_at(node_id: int, endpoints: Endpoints, listener: str) -> Node | None:
    for endpoint in endpoints:
        if endpoint.listener == listener:
            return Node(node_id, endpoint.host, endpoint.port)
    return None
