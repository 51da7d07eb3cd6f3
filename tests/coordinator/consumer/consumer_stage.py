"""A stage for consumer groups: a shard's worth of them, virtual time, topics that come and go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from random import Random
from typing import Any

from ottla.broker.coordinator import record_codec
from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.consumer import hosting
from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.requests import check_heartbeat
from ottla.broker.coordinator.consumer.settings import ConsumerSettings
from ottla.broker.coordinator.consumer.stored import StoredGroup
from ottla.broker.coordinator.group_settings import GroupShardSettings
from ottla.broker.coordinator.group_shard import EXPIRY_TIMER, GroupShard
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
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
    """A shard of groups, and all that they wrote."""

    def __init__(self, settings: ConsumerSettings = SETTINGS, topics: Topics | None = None) -> None:
        self.topics = topics or Topics()
        self.shard = GroupShard(_shard_settings(settings), Random(7), 0)
        self.groups: dict[str, Any] = self.shard.groups
        self.now_ms = 1_000_000
        self.may_describe: Callable[[str], bool] | None = None
        self.timers: dict[Hashable, int] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.replies: dict[Any, Any] = {}

    @property
    def settings(self) -> ConsumerSettings:
        return self.shard.settings.consumer

    @settings.setter
    def settings(self, settings: ConsumerSettings) -> None:
        self.shard.settings = _shard_settings(settings)

    @property
    def image(self) -> MetadataImage:
        return self.topics.image

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
        self.shard.image = self.image
        try:
            check_heartbeat(request, self.settings, client.api_version)
            hosting.heartbeat(
                self.shard,
                request,
                client,
                "token",
                self.now,
                outbox,
                may_describe=self.may_describe,
            )
        except KafkaError as error:
            assert _durable(self.groups) == before, "refused, but something was changed"
            return ConsumerGroupHeartbeatResponse(
                error_code=error.code, error_message=error.message
            )
        response: ConsumerGroupHeartbeatResponse = self._carry_out(outbox)["token"]
        return response

    def serve(self, request: Any, client: Client = CLIENT) -> Any:
        """A request of the classic protocol; the answer, or None if it has to wait."""
        name = type(request).__name__.removesuffix("GroupRequest").removesuffix("Request").lower()
        outbox = Outbox()
        token = object()
        self.shard.image = self.image
        waits = not isinstance(self.groups.get(GROUP), ConsumerGroup) or self.group.is_empty
        if GROUP not in self.groups:
            self.groups[GROUP] = ClassicGroup(GROUP, self.settings.classic, self.shard.random)
        getattr(self.shard, name)(request, client, token, self.now, outbox)
        return self._carry_out(outbox).get(token, token if waits else None)

    def advance(self, ms: int) -> None:
        """Let time pass, and timers fire at their times."""
        end_ms = self.now_ms + ms
        while due := [key for key, at_ms in self.timers.items() if at_ms <= end_ms]:
            key: Any = min(due, key=lambda one: self.timers[one])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            outbox = Outbox()
            self.shard.image = self.image
            self.shard.timer_fired(key, self.now, outbox)
            self._carry_out(outbox)
        self.now_ms = end_ms

    def _carry_out(self, outbox: Outbox) -> dict[Any, Any]:
        self.log += [self.shard.encode(record) for record in outbox.records]
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
        other.shard.random = self.shard.random
        other.shard.image = self.image
        other.log = list(self.log)
        for key, value in self.log if log is None else log:
            record = record_codec.decode(key, value, record_codec.GROUP_RECORDS)
            assert record is not None
            other.shard.replay(record, -1)
        outbox = Outbox()
        other.shard.loaded(other.now, outbox)
        outbox.cancel_timer(EXPIRY_TIMER)
        other._carry_out(outbox)
        return other

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        """The log as compaction leaves it: of every key its last record, where that was."""
        last = {key: at for at, (key, _) in enumerate(self.log)}
        return [self.log[at] for at in sorted(last.values()) if self.log[at][1] is not None]

    def durable(self) -> dict[str, Any]:
        return _durable(self.groups)


def _shard_settings(settings: ConsumerSettings) -> GroupShardSettings:
    return GroupShardSettings(classic=settings.classic, consumer=settings)


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


def owning(partitions: Mapping[bytes, Iterable[int]]) -> list[TopicPartitions]:
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
