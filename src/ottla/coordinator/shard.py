"""What the runtime asks of a coordinator's machine, and what it gives it in return.

A shard is all that one partition of an internal topic holds: for `__consumer_offsets` the groups
(`group_shard.GroupShard`), for `__transaction_state` the transactions. The runtime owns the shard:

    made -> replay(record)* -> loaded -> steps and timer_fired and metadata_changed, in any order

and then lets it drop, when another broker leads the partition, its disk fails, or a step went wrong
(a new one is then made from the log: state that was not written never survives).

A *step* is any function that is handed (shard, now, outbox). It changes the shard's state at once
and leaves in the outbox what must be written and answered. A step may refuse by raising
`KafkaError`, but only before it has changed anything: its outbox is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from ottla.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.errors import KafkaError


class Token(Protocol):
    """The request behind a step: `Outbox.reply(token, response)` answers it, now or much later.

    Machines only keep it and hand it back. Handlers make one (`server/handlers/_coordinated.py`).
    """

    @property
    def resolved(self) -> bool:
        """Whether it was answered, or its client is gone and nobody wants the answer."""
        ...

    def resolve(self, response: Any) -> None: ...

    def fail(self, error: KafkaError) -> None:
        """Answer in the shape of the API, with nothing but this error."""
        ...


class Shard(Protocol):
    record_types: Mapping[int, tuple[str, str]]
    """The types of records in its topic: `record_codec.GROUP_RECORDS` or `TRANSACTION_RECORDS`."""

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value as they are written; `record_codec.encode` with the version Kafka uses."""
        ...

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        """A record of the log, while loading. After all of them the durable state must be what it
        was when they were written. `producer_id` is that of the transaction it belongs to, or -1.
        """
        ...

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        """A transaction marker of the log: while loading, and live when one was just appended."""
        ...

    def lead_on(self, leader_epoch: int) -> None:
        """This broker leads the partition in this epoch: told before `loaded`, and when it goes on
        in another."""
        ...

    def loaded(self, now: Now, outbox: Outbox) -> None:
        """The log has been replayed: set timers, repair what a crash may have left half done."""
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
