"""The replicas' view of the cluster: which brokers may be in an ISR, and the addresses of
leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.metadata.image import EMPTY_IMAGE, BrokerImage, Endpoint, MetadataImage

if TYPE_CHECKING:
    from ottla.broker.replication.leader_state import Proposal
    from ottla.broker.replication.partition import Partition
    from ottla.runtime.clock import Clock

NO_EPOCH = -1


class ClusterView:
    """The newest metadata, and the settings of replication that depend on it."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        lag_max_ms: int,
        broker_epoch: Callable[[], int] = lambda: NO_EPOCH,
    ) -> None:
        self.node_id = node_id
        self.lag_max_ms = lag_max_ms
        self.image: MetadataImage = EMPTY_IMAGE
        self.broker_epoch = broker_epoch
        """The epoch of this broker's own registration."""
        self.propose: Callable[[Partition, Proposal], object] = lambda partition, proposal: None
        """Sends the ISR that a leader proposes to the controller."""
        self._clock = clock

    def now_ms(self) -> int:
        """A monotonic clock, by which lag is measured."""
        return int(self._clock.now() * 1000)

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """True if this broker, with the epoch that its fetches carry, may join an ISR."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch in (NO_EPOCH, broker.epoch)

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """True if a request comes from an earlier registration of this broker."""
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
        """Return the address of a broker on `listener`."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener)
