"""A stage for consumer groups: a shard's worth of them, virtual time, topics that come and go."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random
from typing import Any

from ottla.coordinator import record_codec
from ottla.coordinator.classic.client import Client
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.settings import GroupSettings
from ottla.coordinator.consumer import hosting
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.settings import ConsumerSettings
from ottla.coordinator.consumer.stored import RECORD_KEYS, StoredGroup
from ottla.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.metadata_records.partition_record import PartitionRecord
from ottla.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.metadata_records.topic_record import TopicRecord

GROUP = "crew"
CLIENT = Client("client", "/127.0.0.1", 1)
SETTINGS = ConsumerSettings(classic=GroupSettings(initial_rebalance_delay_ms=0))


class Topics:
    """The metadata, as far as groups care."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self._made = 0

    def _apply(self, *records: Any) -> None:
        self.image = self.image.apply(records, self.image.offset + len(records), 1)

    def create(self, name: str, partitions: int) -> bytes:
        self._made += 1
        topic_id = self._made.to_bytes(16, "big")
        self._apply(TopicRecord(name=name, topic_id=topic_id), *_partitions(topic_id, partitions))
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        topic = self.image.topics[name]
        self._apply(*_partitions(topic.id, partitions, len(topic.partitions)))

    def delete(self, name: str) -> None:
        self._apply(RemoveTopicRecord(topic_id=self.image.topics[name].id))


def _partitions(topic_id: bytes, count: int, start: int = 0) -> Iterable[PartitionRecord]:
    for index in range(start, count):
        yield PartitionRecord(
            topic_id=topic_id, partition_id=index, replicas=[1], isr=[1], leader=1
        )


class Stage:
    """Hosts groups as a shard does, and remembers all that they wrote."""

    def __init__(self, settings: ConsumerSettings = SETTINGS, topics: Topics | None = None) -> None:
        self.settings = settings
        self.topics = topics or Topics()
        self.groups: dict[str, Any] = {}
        self.random = Random(7)
        self.now_ms = 1_000_000
        self.timers: dict[Hashable, int] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.replies: dict[Any, Any] = {}

    @property
    def image(self) -> MetadataImage:
        return self.topics.image

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        return self.settings

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic(self) -> ClassicGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_700_000_000_000 + self.now_ms)

    # --- steps ----------------------------------------------------------------------------------

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client = CLIENT
    ) -> ConsumerGroupHeartbeatResponse:
        outbox = Outbox()
        before = _durable(self.groups)
        try:
            hosting.heartbeat(self, request, client, "token", self.now, outbox)
        except KafkaError as error:
            assert _durable(self.groups) == before, "refused, but something was changed"
            return ConsumerGroupHeartbeatResponse(
                error_code=error.code, error_message=error.message
            )
        return self._carry_out(outbox)["token"]

    def serve(self, request: Any, client: Client = CLIENT) -> Any:
        """A request of the classic protocol; the answer, or None if it has to wait."""
        name = type(request).__name__.removesuffix("GroupRequest").removesuffix("Request").lower()
        outbox = Outbox()
        token = object()
        group = self.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            served = {
                "join": hosting.join,
                "sync": hosting.sync,
                "heartbeat": hosting.classic_heartbeat,
                "leave": hosting.leave,
            }[name](self, group, request, client, token, self.now, outbox)
            if served is not False:
                return self._carry_out(outbox).get(token)
        if GROUP not in self.groups:
            self.groups[GROUP] = ClassicGroup(GROUP, self.settings.classic, self.random)
        getattr(self.groups[GROUP], name)(request, client, token, self.now, outbox)
        replies = self._carry_out(outbox)
        return replies.get(token, token)

    def advance(self, ms: int) -> None:
        """Let time pass, and timers fire at their times."""
        end_ms = self.now_ms + ms
        while due := [key for key, at_ms in self.timers.items() if at_ms <= end_ms]:
            key: Any = min(due, key=lambda one: self.timers[one])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            group = self.groups.get(key[1])
            outbox = Outbox()
            if isinstance(group, ConsumerGroup) and key[0] == "consumer":
                hosting.timer_fired(self, group, key, self.now, outbox)
            elif isinstance(group, ClassicGroup) and key[0] == "classic":
                group.timer_fired(key, self.now, outbox)
            self._carry_out(outbox)
        self.now_ms = end_ms

    def _carry_out(self, outbox: Outbox) -> dict[Any, Any]:
        self.log += [record_codec.encode(record, _version(record)) for record in outbox.records]
        for key, due_ms in outbox.timers.items():
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms
        replies = dict(outbox.replies)
        assert len(replies) == len(outbox.replies), "answered twice"
        self.replies |= replies
        return replies

    # --- crashes --------------------------------------------------------------------------------

    def reloaded(self, log: list[tuple[bytes, bytes | None]] | None = None) -> Stage:
        """The same, made from what was written."""
        other = Stage(self.settings, self.topics)
        other.now_ms = self.now_ms
        other.random = self.random
        other.log = list(self.log)
        for key, value in self.log if log is None else log:
            record = record_codec.decode(key, value, record_codec.GROUP_RECORDS)
            assert record is not None
            other.replay(record)
        outbox = Outbox()
        for group in other.groups.values():
            if isinstance(group, ConsumerGroup):
                group.image = other.image
            group.loaded(other.now, outbox)
        other._carry_out(outbox)
        return other

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        """The log as compaction leaves it: of every key its last record, where that was."""
        last = {key: at for at, (key, _) in enumerate(self.log)}
        return [self.log[at] for at in sorted(last.values()) if self.log[at][1] is not None]

    def replay(self, record: CoordinatorRecord) -> None:
        key, value = record
        if isinstance(key, RECORD_KEYS):
            hosting.replay(self, key, value)
            return
        assert isinstance(key, GroupMetadataKey)
        group = self.groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                del self.groups[key.group]
            return
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(key.group, self.settings.classic, self.random)
            self.groups[key.group] = group
        group.replay(key, value)  # type: ignore[arg-type]

    def durable(self) -> dict[str, Any]:
        return _durable(self.groups)


def _version(record: CoordinatorRecord) -> int | None:
    return 3 if isinstance(record.key, GroupMetadataKey) and record.value is not None else None


def _durable(groups: dict[str, Any]) -> dict[str, Any]:
    return {
        group_id: {name: _copied(value) for name, value in vars(group).items() if name in _STORED}
        for group_id, group in groups.items()
        if isinstance(group, ConsumerGroup)
    }


def _copied(value: Any) -> Any:
    return {key: _copied(one) for key, one in value.items()} if isinstance(value, dict) else value


_STORED = vars(StoredGroup("any")).keys()


# --- requests -----------------------------------------------------------------------------------


def joining(
    member_id: str = "m1", topics: list[str] | None = None, **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    if topics is None and "subscribed_topic_regex" not in fields:
        topics = ["orders"]
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": topics,
            "topic_partitions": [],
            **fields,
        }
    )


def beating(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields
    )


def owning(partitions: dict[bytes, Iterable[int]]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
    ]


def told(response: ConsumerGroupHeartbeatResponse) -> set[tuple[bytes, int]] | None:
    """The partitions that an answer assigns; None if it says nothing about them."""
    assert response.error_code == ErrorCode.NONE, (
        ErrorCode.of(response.error_code),
        response.error_message,
    )
    if response.assignment is None:
        return None
    return {
        (topic.topic_id, index)
        for topic in response.assignment.topic_partitions
        for index in topic.partitions
    }
