"""As whom batches are sent, and whether they may be sent now.

A plain producer is nobody. An idempotent one has a producer id and an epoch, by which brokers tell
its batches and their order apart. A transactional one has them from its coordinator, and may send
to a partition only within a transaction that the partition is part of.
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
    """The sender asks it before every request, and tells it what became of batches."""

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
        """The newest version of Produce to use, None: any. By the version the broker tells whether
        this producer adds partitions to its transaction itself (up to 11) or leaves that to the
        broker (KIP-890)."""
        ...

    @property
    def ready(self) -> bool:
        """Whether batches may be built now. While not, the keeper works on it, and wakes the sender
        when that has changed."""
        ...

    def admits(self, partition: TopicPartition) -> bool:
        """Whether a batch for this partition may be sent now. If not, the keeper has begun what is
        needed (adding the partition to the transaction) and wakes the sender afterwards."""
        ...

    def check_send(self) -> None:
        """Raise if a record may not be given now: no transaction open, fenced, failed."""
        ...

    def delivered(self, partition: TopicPartition) -> None: ...

    def failed(self, partition: TopicPartition, error: Exception) -> None:
        """A batch has been given up: its sequence numbers leave a hole."""
        ...

    async def close(self, within_ms: float) -> None:
        """End what is under way for the keeper's own sake."""
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
    """What a keeper of transactions asks of the producer it belongs to."""

    async def flush(self) -> None:
        """Send all there is, without lingering, and return when each record given so far was
        acknowledged or has failed. Failures were told to the keeper by then (`failed`)."""
        ...

    def drop_unsent(self, error: Exception) -> bool:
        """Fail, with `error`, each record that no request carries now, also those in batches that
        wait to be sent again: True if there were such, because their numbers leave a hole.

        Nobody has to look at these failures: the application is told otherwise, or asked for it.
        The keeper's `failed` is not called for them."""
        ...

    async def drained(self) -> None:
        """Return when no request is under way and none waits to be sent again."""
        ...

    def forget_sequences(self, partition: TopicPartition | None = None) -> None:
        """The next batch to this partition (None: to each) has sequence number 0."""
        ...

    def wake(self) -> None:
        """`ready`, `admits` or `identity` of the keeper may have changed: look again."""
        ...
