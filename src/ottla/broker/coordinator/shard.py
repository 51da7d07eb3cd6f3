"""The interface between the runtime and a coordinator's state machine.

A shard holds the state of one partition of an internal topic: for `__consumer_offsets` the groups
(`group_shard.GroupShard`), for `__transaction_state` the transactions. The runtime owns the shard:

    made -> replay(record)* -> loaded -> steps and timer_fired and metadata_changed, in any order

It drops the shard when another broker leads the partition, its disk fails, or a step failed (a new
shard is then loaded from the log: state that was not written never survives).

A *step* is any function with the arguments (shard, now, outbox). It changes the shard's state at
once and puts records and replies into the outbox. A step may refuse by raising `KafkaError`, but
only before it has changed anything: its outbox is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.protocol.errors import KafkaError


class Token(Protocol):
    """The request behind a step: `Outbox.reply(token, response)` answers it, now or much later.

    State machines only keep it and pass it back. Handlers make one
    (`broker/server/handlers/_coordinated.py`).
    """

    @property
    def resolved(self) -> bool:
        """True if it was answered, or its client has disconnected."""
        ...

    def resolve(self, response: Any) -> None: ...

    def fail(self, error: KafkaError) -> None:
        """Answer with a response of the API that carries only this error."""
        ...


class Shard(Protocol):
    record_types: Mapping[int, tuple[str, str]]
    """The record types of its topic: `record_codec.GROUP_RECORDS` or `TRANSACTION_RECORDS`."""

    base_sequence: int
    """The base sequence of its batches: it has no meaning, and is the one that Kafka writes."""

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Return key and value as they are written: `record_codec.encode` with the version that
        Kafka uses."""
        ...

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Replay a record of the log, while loading. After all of them the durable state must be
        the same as when they were written. `producer_id` is that of the record's transaction, or
        -1."""
        ...

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker: while loading, and when one was just appended."""
        ...

    def lead_on(self, leader_epoch: int) -> None:
        """Take the epoch in which this broker leads the partition: called before `loaded`, and when
        it changes while this broker stays the leader."""
        ...

    def loaded(self, now: Now, outbox: Outbox) -> None:
        """The log has been replayed: set timers, and complete what a crash may have interrupted."""
        ...

    def timer_fired(self, key: Hashable, now: Now, outbox: Outbox) -> None:
        """A timer set by an earlier step is due. It is no longer set."""
        ...

    def metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage, now: Now, outbox: Outbox
    ) -> None:
        """Topics, brokers or settings changed. Also called once, with an empty delta, after
        `loaded`."""
        ...


S = TypeVar("S", bound=Shard)
Step: TypeAlias = Callable[[S, Now, Outbox], None]
