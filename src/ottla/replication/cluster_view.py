"""What replicas ask about the rest of the cluster: who may be in an ISR, where a leader is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.metadata.image import EMPTY_IMAGE, BrokerImage, Endpoint, MetadataImage

if TYPE_CHECKING:
    from ottla.replication.leader_state import Proposal
    from ottla.replication.partition import Partition
    from ottla.runtime.clock import Clock

NO_EPOCH = -1


class ClusterView:
    """The newest metadata, and the settings of replication that depend on it."""

    def __init__(self, node_id: int, clock: Clock, lag_max_ms: int) -> None:
        self.node_id = node_id
        self.lag_max_ms = lag_max_ms
        self.image: MetadataImage = EMPTY_IMAGE
        self.broker_epoch: Callable[[], int] = lambda: NO_EPOCH
        """That of this broker's own registration."""
        self.propose: Callable[[Partition, Proposal], object] = lambda partition, proposal: None
        """Takes the ISR that a leader asks for to the controller."""
        self._clock = clock

    def now_ms(self) -> int:
        """A clock that nobody sets: lag is measured by it."""
        return int(self._clock.now() * 1000)

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """May this broker, in the life that its fetches come from, join an ISR?"""
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch in (NO_EPOCH, broker.epoch)

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Does a request come from an earlier life of this broker?"""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker_epoch == NO_EPOCH:
            return False
        return broker_epoch < broker.epoch

    def is_alive(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def broker(self, broker_id: int) -> BrokerImage | None:
        return self.image.brokers.get(broker_id)

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        """Where a broker is found by those who come in by `listener`."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener)
