"""Who is meant, where to reach it, and where in the log: the small values everything is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ottla.protocol.uuids import ZERO_UUID

NO_LEADER = -1
CLUSTER_METADATA = "__cluster_metadata"


class OffsetAndEpoch(NamedTuple):
    """An end of the log, or the id of a snapshot: the next offset, and the epoch before it."""

    offset: int
    epoch: int

    def is_behind(self, other: OffsetAndEpoch) -> bool:
        """A log that ends here lacks something a log that ends there may have."""
        return (self.epoch, self.offset) < (other.epoch, other.offset)


class ReplicaKey(NamedTuple):
    """A node and the directory it has its log in: with another disk it is another replica."""

    id: int
    directory: bytes | None = None

    @classmethod
    def of(cls, node_id: int, directory: bytes) -> ReplicaKey:
        """The key in a message, where zeros stand for a directory that is not known."""
        return cls(node_id, None if directory == ZERO_UUID else bytes(directory))

    @property
    def directory_bytes(self) -> bytes:
        return ZERO_UUID if self.directory is None else self.directory

    def matches(self, other: ReplicaKey) -> bool:
        """`other` is this replica; a key without a directory stands for any directory."""
        return self.id == other.id and self.directory in (None, other.directory)


class Node(NamedTuple):
    """Where a request goes. Bootstrap servers, whose ids nobody knows, have negative ones."""

    id: int
    host: str
    port: int


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int


class NamedEndpoint(Protocol):
    """How messages of the protocol spell an endpoint."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]
"""Sorted, at most one a listener."""


def endpoints_of(named: Iterable[NamedEndpoint]) -> Endpoints:
    return tuple(sorted(Endpoint(each.name, each.host, each.port) for each in named))


def node_at(node_id: int, endpoints: Endpoints, listener: str) -> Node | None:
    for endpoint in endpoints:
        if endpoint.listener == listener:
            return Node(node_id, endpoint.host, endpoint.port)
    return None
