"""The identity that batches are sent with, and whether they may be sent now.

A plain producer has none. An idempotent one has a producer id and an epoch, by which brokers check
its batches and their order. A transactional one gets them from its coordinator, and may send to a
partition only in a transaction that includes the partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.values import TopicPartition


@dataclass(frozen=True, slots=True)
class Identity:
    producer_id: int = -1
    epoch: int = -1

    @property
    def known(self) -> bool:
        return self.producer_id >= 0

    def __str__(self) -> str:
        return f"producer id {self.producer_id}, epoch {self.epoch}"


NOBODY = Identity()


class IdentityKeeper(Protocol):
    """The sender asks it before every request, and reports the outcome of batches."""

    @property
    def identity(self) -> Identity:
        """`NOBODY` for a plain producer, and until `ready` for others."""
        ...

    @property
    def is_transactional(self) -> bool: ...

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def produce_version_max(self) -> int | None:
        """The newest version of Produce to use; None: any. The version tells the broker whether
        this producer adds partitions to its transaction itself (up to 11) or leaves that to the
        broker (KIP-890)."""
        ...

    @property
    def ready(self) -> bool:
        """True if batches may be built now. If not, the keeper works on it, and wakes the sender
        when that has changed."""
        ...

    def admits(self, partition: TopicPartition) -> bool:
        """Return whether a batch for this partition may be sent now. If not, the keeper has begun
        what is needed (adding the partition to the transaction) and wakes the sender afterwards."""
        ...

    def check_send(self) -> None:
        """Raise if a record may not be sent now: no open transaction, fenced, or failed."""
        ...

    def delivered(self, partition: TopicPartition) -> None: ...

    def failed(self, partition: TopicPartition, error: Exception) -> None:
        """Note that a batch has failed: its sequence numbers leave a gap."""
        ...

    async def close(self, within_ms: float) -> None:
        """End the keeper's own pending work."""
        ...


class Nobody:
    """The keeper of a plain producer."""

    identity: Final = NOBODY
    is_transactional: Final = False
    transactional_id: Final = None
    produce_version_max: Final = None
    ready: Final = True

    def admits(self, partition: TopicPartition) -> bool:
        return True

    def check_send(self) -> None:
        pass

    def delivered(self, partition: TopicPartition) -> None:
        pass

    def failed(self, partition: TopicPartition, error: Exception) -> None:
        pass

    async def close(self, within_ms: float) -> None:
        pass


class Outbox(Protocol):
    """The part of the producer that a keeper of transactions uses."""

    async def flush(self) -> None:
        """Send everything without lingering, and return when each record given so far was
        acknowledged or has failed. The keeper's `failed` has been called for failures by then."""
        ...

    def drop_unsent(self, error: Exception) -> bool:
        """Fail, with `error`, each record that is in no pending request, also those in batches that
        wait for a retry. Return True if there were any, because their numbers leave a gap.

        These failures are not reported as unseen: the application learns of them otherwise, or
        asked for them. The keeper's `failed` is not called for them."""
        ...

    async def drained(self) -> None:
        """Wait until no request is pending and no batch waits for a retry."""
        ...

    def forget_sequences(self, partition: TopicPartition | None = None) -> None:
        """Begin again with sequence number 0 in this partition (None: in each)."""
        ...

    def wake(self) -> None:
        """Look again: `ready`, `admits` or `identity` of the keeper may have changed."""
        ...
