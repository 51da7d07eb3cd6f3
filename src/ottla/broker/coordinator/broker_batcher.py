"""Batches requests to other brokers.

At most one request is in flight to a broker; items that arrive meanwhile are sent with the next
one. So a slow broker gets fewer and larger requests. Items for a broker that leaves the cluster
fail as soon as the metadata says so.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from ottla.broker.peers.peers import PeerError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.coordinator.neighbours import Neighbours
    from ottla.broker.peers.peers import Peers
    from ottla.runtime.runtime import Runtime

PEER_CLOSED: Final = PeerError(ErrorCode.NETWORK_EXCEPTION, "this node is closing")
WAITING_MAX: Final = 10_000
"""The most items that wait for one broker; further ones fail at once."""
TOGETHER_MAX: Final = 1_000
"""The most items in one request."""


class Item(Protocol):
    @property
    def key(self) -> Hashable:
        """A request carries at most one item of each key."""
        ...

    @property
    def is_wanted(self) -> bool:
        """True if it is still to be sent."""
        ...

    def fail(self, error: ErrorCode) -> None:
        """No answer came: NETWORK_EXCEPTION, REQUEST_TIMED_OUT or UNSUPPORTED_VERSION."""
        ...


I = TypeVar("I", bound=Item)  # noqa: E741


class BrokerBatcher(ABC, Generic[I]):
    LANE: ClassVar[str]
    """The lane of its requests: requests wait only for others of the same lane."""

    def __init__(
        self, runtime: Runtime, peers: Peers, neighbours: Neighbours, timeout_ms: int
    ) -> None:
        self._runtime = runtime
        self._peers = peers
        self._neighbours = neighbours
        self._timeout_ms = timeout_ms
        self._waiting: dict[int, list[I]] = {}
        self._under_way: dict[int, list[I]] = {}

    @abstractmethod
    def pack(self, items: Sequence[I]) -> Message:
        """Return a request with these items."""

    @abstractmethod
    def unpack(self, items: Sequence[I], response: Any) -> None:
        """Pass the response to each item."""

    def put(self, broker_id: int, item: I) -> None:
        waiting = self._waiting.setdefault(broker_id, [])
        if len(waiting) >= WAITING_MAX:
            item.fail(ErrorCode.NETWORK_EXCEPTION)
            return
        waiting.append(item)
        if len(waiting) == 1 and broker_id not in self._under_way:
            # Send later, as more items may arrive in this turn of the loop.
            self._runtime.call_soon(self._send, broker_id)

    def metadata_changed(self) -> None:
        """Fail the items in flight to brokers that are gone; late responses are ignored."""
        for broker_id in list(self._under_way):
            if self._neighbours.address(broker_id) is None:
                self._fail(self._under_way.pop(broker_id), ErrorCode.NETWORK_EXCEPTION)
                self._send(broker_id)

    def close(self) -> None:
        self._waiting.clear()
        self._under_way.clear()

    def _send(self, broker_id: int) -> None:
        if broker_id in self._under_way:
            return
        going = self._take(broker_id)
        if not going:
            return
        address = self._neighbours.address(broker_id)
        if address is None:
            self._fail(going, ErrorCode.NETWORK_EXCEPTION)
            self._runtime.call_soon(self._send, broker_id)
            return
        self._under_way[broker_id] = going
        answer = self._peers.post(
            *address, self.pack(going), timeout_ms=self._timeout_ms, lane=self.LANE
        )
        answer.add_done_callback(partial(self._answered, broker_id, going))

    def _take(self, broker_id: int) -> list[I]:
        """Take the items for the next request; the others stay in the queue."""
        going: dict[Hashable, I] = {}
        staying: list[I] = []
        for item in self._waiting.pop(broker_id, ()):
            if not item.is_wanted:
                continue
            if item.key in going or len(going) >= TOGETHER_MAX:
                staying.append(item)
            else:
                going[item.key] = item
        if staying:
            self._waiting[broker_id] = staying
        return list(going.values())

    def _answered(self, broker_id: int, going: list[I], answer: asyncio.Future[Any]) -> None:
        error = PEER_CLOSED if answer.cancelled() else answer.exception()
        if self._under_way.get(broker_id) is not going:
            return
        del self._under_way[broker_id]
        if error is None:
            self.unpack(going, answer.result())
        else:
            self._fail(going, getattr(error, "code", ErrorCode.NETWORK_EXCEPTION))
        self._send(broker_id)

    def _fail(self, items: Sequence[I], error: ErrorCode) -> None:
        for item in items:
            item.fail(error)
