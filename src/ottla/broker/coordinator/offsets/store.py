"""The committed offsets of all groups of one shard, and those pending in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.uuids import ZERO_UUID

NO_EXPIRY: Final = -1
NO_TRANSACTION: Final = -1
_EXPIRING_VALUE_VERSION: Final = 1
"""Only this old version has a field for the expiry that old clients ask for."""


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    """Wall-clock time of the commit."""
    expire_ms: int
    """When it expires, if an old client set this itself; else -1."""
    topic_id: bytes
    """The id of the topic it was committed for; zero if the client did not send one."""
    order: int
    """Its position among all commits of this shard. A transaction that ends late must not overwrite
    an offset that was committed after its own."""


Offsets = dict[str, dict[int, CommittedOffset]]
"""By topic and partition."""


class OffsetStore:
    def __init__(self) -> None:
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}
        self._open: dict[str, set[int]] = {}
        self._commits = 0

    # --- reading --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Offsets:
        return self._committed.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def has_open_transactions(self, group_id: str) -> bool:
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """True if an open transaction has an offset for this partition."""
        return any(
            partition in self._pending[producer_id].get(group_id, {}).get(topic, {})
            for producer_id in self._open.get(group_id, ())
        )

    def pending_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions with offsets in open transactions; some may be repeated."""
        for producer_id in self._open.get(group_id, ()):
            yield from partitions_of(self._pending[producer_id].get(group_id, {}))

    def of_topic(self, topic: str) -> list[tuple[str, int, CommittedOffset]]:
        """Return everything committed or pending for a topic: (group, partition, offset)."""
        places = [self._committed, *self._pending.values()]
        return [
            (group_id, partition, offset)
            for by_group in places
            for group_id, offsets in by_group.items()
            for partition, offset in offsets.get(topic, {}).items()
        ]

    # --- changes --------------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        topic: str,
        partition: int,
        offset: CommittedOffset,
        outbox: Outbox,
        producer_id: int = NO_TRANSACTION,
    ) -> None:
        """Commit an offset and write its record; `outbox.producer` must be set if it is in a
        transaction."""
        self._put(group_id, topic, partition, offset, producer_id)
        outbox.append(
            OffsetCommitKey(group=group_id, topic=topic, partition=partition),
            OffsetCommitValue(
                offset=offset.offset,
                leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                commit_timestamp=offset.commit_ms,
                expire_timestamp=offset.expire_ms,
                topic_id=offset.topic_id,
            ),
        )

    def remove(self, group_id: str, topic: str, partition: int, outbox: Outbox) -> bool:
        """Delete an offset, committed and pending, with a tombstone; True if there was one."""
        if not self._remove(group_id, topic, partition):
            return False
        outbox.append(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
        return True

    def remove_group(self, group_id: str, outbox: Outbox) -> int:
        """Delete all offsets of a group and return their number."""
        partitions = dict.fromkeys(partitions_of(self.group(group_id)))
        partitions.update(dict.fromkeys(self.pending_of(group_id)))
        return sum(self.remove(group_id, *partition, outbox) for partition in partitions)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        """Commit or discard the pending offsets of a transaction."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            producers = self._open.get(group_id)
            if producers is not None:
                producers.discard(producer_id)
                if not producers:
                    del self._open[group_id]
            if not committed:
                continue
            for topic, partition in partitions_of(offsets):
                offset = offsets[topic][partition]
                existing = self.get(group_id, topic, partition)
                if existing is None or offset.order > existing.order:
                    self._put(group_id, topic, partition, offset, NO_TRANSACTION)

    # --- loading --------------------------------------------------------------------------------

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        if value is None:
            self._remove(key.group, key.topic, key.partition)
            return
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self.next_order(),
        )
        self._put(key.group, key.topic, key.partition, offset, producer_id)

    # --- helpers --------------------------------------------------------------------------------

    def next_order(self) -> int:
        self._commits += 1
        return self._commits

    def _put(
        self, group_id: str, topic: str, partition: int, offset: CommittedOffset, producer_id: int
    ) -> None:
        by_group = self._committed
        if producer_id != NO_TRANSACTION:
            by_group = self._pending.setdefault(producer_id, {})
            self._open.setdefault(group_id, set()).add(producer_id)
        offsets = by_group.get(group_id)
        if offsets is None:
            offsets = by_group[group_id] = {}
        partitions = offsets.get(topic)
        if partitions is None:
            partitions = offsets[topic] = {}
        partitions[partition] = offset

    def _remove(self, group_id: str, topic: str, partition: int) -> bool:
        found = _take_out(self._committed, group_id, topic, partition)
        for producer_id in self._open.get(group_id, ()):
            # The transaction stays listed for the group: it is open until its marker comes.
            offsets = self._pending[producer_id].get(group_id, {})
            partitions = offsets.get(topic, {})
            found |= partitions.pop(partition, None) is not None
            if not partitions:
                offsets.pop(topic, None)
        return found


def value_version(value: OffsetCommitValue) -> int | None:
    """Return the version in which to write the value; None means the newest."""
    return _EXPIRING_VALUE_VERSION if value.expire_timestamp != NO_EXPIRY else None


def no_topic_id(topic_id: bytes) -> bool:
    return topic_id == ZERO_UUID


def partitions_of(offsets: Offsets) -> list[tuple[str, int]]:
    return [(topic, partition) for topic, partitions in offsets.items() for partition in partitions]


def _take_out(by_group: dict[str, Offsets], group_id: str, topic: str, partition: int) -> bool:
    offsets = by_group.get(group_id, {})
    partitions = offsets.get(topic, {})
    if partitions.pop(partition, None) is None:
        return False
    if not partitions:
        del offsets[topic]
    if not offsets:
        del by_group[group_id]
    return True
