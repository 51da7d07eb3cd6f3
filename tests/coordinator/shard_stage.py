"""A group shard on a stage: virtual time, requests with answers, a log that can be loaded again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any

from coordinator_stage import StageToken

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.group_settings import GroupShardSettings
from ottla.broker.coordinator.group_shard import GroupShard
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.broker.coordinator.record_codec import GROUP_RECORDS, decode
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

WALL_MS = 1_700_000_000_000
DAY_MS = 24 * 3_600_000


class ShardStage:
    def __init__(self, settings: GroupShardSettings | None = None) -> None:
        self.settings = settings or GroupShardSettings()
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None, int] | tuple[int, bool]] = []
        self.timers: dict[Hashable, int] = {}
        self.image = MetadataImage()
        self.shard = self._made()
        self.step(self.shard.loaded)

    def _made(self) -> GroupShard:
        return GroupShard(self.settings, Random(0), 0)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def step(self, what: Callable[..., None], *arguments: Any) -> None:
        outbox = Outbox()
        what(*arguments, self.now, outbox)
        producer_id = -1 if outbox.producer is None else outbox.producer[0]
        for record in outbox.records:
            self.log.append((*self.shard.encode(record), producer_id))
        for key, due_ms in outbox.timers.items():
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms
        for token, response in outbox.replies:
            token.resolve(response)

    def ask(self, what: Callable[..., None], *arguments: Any) -> Any:
        """The answer to a request, or the code of the error."""
        token = StageToken()
        try:
            self.step(what, *arguments, token)
        except KafkaError as error:
            return error.code
        return token.answers[0] if token.answers else None

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while due := [key for key, due_ms in self.timers.items() if due_ms <= end]:
            key = min(due, key=lambda one: self.timers[one])
            self.now_ms = self.timers.pop(key)
            self.step(self.shard.timer_fired, key)
        self.now_ms = end

    def reloaded(self) -> GroupShard:
        """A shard made from the log."""
        shard = self._made()
        for entry in self.log:
            if len(entry) == 2:
                shard.transaction_ended(entry[0], committed=entry[1])
                continue
            key, value, producer_id = entry
            record = decode(key, value, GROUP_RECORDS)
            assert record is not None
            shard.replay(record, producer_id)
        return shard

    # --- requests -------------------------------------------------------------------------------

    def commit(
        self,
        group: str,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        member: str = "",
        generation: int = -1,
        version: int = 9,
        metadata: str = "",
        retention_ms: int = -1,
        topic_id: bytes = bytes(16),
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=generation,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        answer = self.ask(self.shard.commit_offsets, request, Client("c", "/h", version))
        if isinstance(answer, ErrorCode):
            return answer
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    def commit_in_transaction(
        self, group: str, offset: int, producer_id: int, *, topic: str = "t", partition: int = 0
    ) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        what = self.shard.commit_offsets_in_transaction
        answer = self.ask(what, request, Client("c", "/h", 5))
        if isinstance(answer, ErrorCode):
            return answer
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.append((producer_id, committed))
        self.shard.transaction_ended(producer_id, committed=committed)

    def fetch(
        self,
        group: str,
        *,
        topic: str = "t",
        partition: int = 0,
        stable: bool = False,
        topic_id: bytes = bytes(16),
    ) -> int | ErrorCode:
        """The committed offset, -1 if there is none, or the error."""
        wanted = OffsetFetchRequestTopics(
            name=topic, topic_id=topic_id, partition_indexes=[partition]
        )
        request = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
        answer = self.shard.fetch_offsets(request, require_stable=stable)
        if answer.error_code:
            return ErrorCode.of(answer.error_code)
        (found,) = answer.topics[0].partitions
        return ErrorCode.of(found.error_code) if found.error_code else found.committed_offset

    def fetch_all(self, group: str) -> dict[tuple[str, int], int]:
        request = OffsetFetchRequestGroup(group_id=group, topics=None)
        answer = self.shard.fetch_offsets(request, require_stable=False)
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
        }

    def delete_offset(self, group: str, topic: str = "t", partition: int = 0) -> ErrorCode:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=partition)],
                )
            ],
        )
        answer = self.ask(self.shard.delete_offsets, request)
        if isinstance(answer, ErrorCode):
            return answer
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    def delete_group(self, group: str) -> ErrorCode:
        return ErrorCode.of(self.ask(self.shard.delete_group, group).error_code)

    def topic_deleted(self, name: str, topic_id: bytes = bytes(16)) -> None:
        delta = MetadataDelta(deleted={topic_id: TopicImage(name, topic_id, {})})
        self.step(self.shard.metadata_changed, delta, self.image)

    def join(self, group: str, subscription: bytes = b"") -> str:
        """A member joins alone and is given its assignment; its id."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        token = StageToken()
        self.step(self.shard.join, request, Client("c", "/h", 3), token)
        self.advance(self.settings.classic.initial_rebalance_delay_ms)
        (joined,) = token.answers
        assert joined.error_code == 0, ErrorCode.of(joined.error_code)
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
        )
        answer = self.ask(self.shard.sync, sync, Client("c", "/h", 3))
        assert answer.error_code == 0
        return str(joined.member_id)
