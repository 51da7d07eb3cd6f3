"""A group coordinator that says yes, unless a test has another answer for the next request; and a
membership beside it, without the rest of a consumer."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from group_tools import Diary
from scripted_cluster import ScriptedCluster

from ottla.client.consumer.groups.membership import make_membership
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.network.cluster import Cluster
from ottla.client.settings.base import settings_from
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages import consumer_group_heartbeat as chb
from ottla.protocol.messages import offset_commit, offset_fetch
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.runtime.os_runtime import OsRuntime

GROUP = "g"
TOPIC = "t"
TOPIC_ID = (1).to_bytes(16, "big")
HANG_UP = "hang up"
SILENCE = "silence"


class ScriptedGroup:
    """Its `script[api]` holds what becomes of the next requests: codes, HANG_UP, SILENCE."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.script: dict[ApiKey, deque[ErrorCode | str]] = defaultdict(deque)
        self.asked: list[tuple[int, ApiKey, Any]] = []
        self.generation = 0
        self.epoch = 0
        self.assignment: dict[bytes, list[int]] | None = {TOPIC_ID: [0, 1]}
        """In the new protocol, what the next answer gives; None once it has."""
        cluster.topic(TOPIC, [1, 1])
        cluster.coordinators[GROUP] = 1
        cluster.hook = self._hook

    def requests(self, api: ApiKey) -> list[Any]:
        return [request for _, asked, request in self.asked if asked is api]

    def give(self, *indexes: int) -> None:
        """A new target for the member of the new protocol."""
        self.epoch += 1
        self.assignment = {TOPIC_ID: list(indexes)}

    async def _hook(self, node: int, header: RequestHeader, request: Any, writer: Any) -> bool:
        api = ApiKey(header.api_key)
        self.asked.append((node, api, request))
        reply = self.script[api].popleft() if self.script[api] else ErrorCode.NONE
        if reply == HANG_UP:
            writer.close()
            return True
        if reply == SILENCE:
            return True
        assert isinstance(reply, ErrorCode), reply
        answer = self._answer(api, header, request, reply)
        if answer is None:
            return False
        self.cluster.brokers[node].send(writer, header, answer)
        return True

    def _answer(self, api: ApiKey, header: RequestHeader, request: Any, code: ErrorCode) -> Any:
        match api:
            case ApiKey.JOIN_GROUP:
                return self._join(request, code)
            case ApiKey.SYNC_GROUP:
                own = [a.assignment for a in request.assignments if a.member_id == "member"]
                return SyncGroupResponse(error_code=code, assignment=own[0] if own else b"")
            case ApiKey.HEARTBEAT:
                return HeartbeatResponse(error_code=code)
            case ApiKey.LEAVE_GROUP:
                return LeaveGroupResponse(error_code=code)
            case ApiKey.OFFSET_COMMIT:
                return _commit(request, code)
            case ApiKey.OFFSET_FETCH:
                return _fetch(request, header.api_version, code)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                return self._beat(request, code)
            case _:
                return None

    def _join(self, request: Any, code: ErrorCode) -> JoinGroupResponse:
        if code:
            return JoinGroupResponse(error_code=code, member_id="member", protocol_name="")
        self.generation += 1
        first = request.protocols[0]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=first.name,
            leader="member",
            member_id="member",
            members=[JoinGroupResponseMember(member_id="member", metadata=first.metadata)],
        )

    def _beat(self, request: Any, code: ErrorCode) -> chb.ConsumerGroupHeartbeatResponse:
        if code:
            return chb.ConsumerGroupHeartbeatResponse(error_code=code, error_message="scripted")
        if request.member_epoch < 0:
            return chb.ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0 and self.assignment is None:
            self.give(0, 1)
        self.epoch = max(self.epoch, 1)
        given, self.assignment = self.assignment, None
        assignment = None
        if given is not None:
            assignment = chb.Assignment(
                topic_partitions=[
                    chb.TopicPartitions(topic_id=one, partitions=part)
                    for one, part in given.items()
                ]
            )
        return chb.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=50,
            assignment=assignment,
        )


def _commit(request: Any, code: ErrorCode) -> offset_commit.OffsetCommitResponse:
    return offset_commit.OffsetCommitResponse(
        topics=[
            offset_commit.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    offset_commit.OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _fetch(request: Any, version: int, code: ErrorCode) -> offset_fetch.OffsetFetchResponse:
    assert version >= 8
    (group,) = request.groups
    topics = [
        offset_fetch.OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                offset_fetch.OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=7, metadata=""
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in group.topics
    ]
    answer = offset_fetch.OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[] if code else topics, error_code=code
    )
    return offset_fetch.OffsetFetchResponse(groups=[answer])


class Stage:
    """A membership that is attended as a consumer would."""

    def __init__(self, group: ScriptedGroup, runtime: OsRuntime, options: dict[str, Any]) -> None:
        settings = settings_from(
            ConsumerSettings,
            {
                "bootstrap_servers": group.cluster.bootstrap,
                "group_id": GROUP,
                "heartbeat_interval_ms": 50,
                "session_timeout_ms": 5_000,
                "retry_backoff_ms": 5,
                "retry_backoff_max_ms": 20,
                "reconnect_backoff_ms": 5,
                "default_api_timeout_ms": 2_000,
                "enable_auto_commit": False,
                **options,
            },
        )
        self.group = group
        self.runtime = runtime
        self.diary = Diary()
        self.subscriptions = Subscriptions()
        self.subscriptions.subscribe([TOPIC], listener=self.diary)
        self.cluster = Cluster.of(settings, runtime)
        self.membership: Any = make_membership(
            self.cluster, settings, self.subscriptions, lambda: None, self.cluster.metrics
        )

    async def attend_until(self, condition: Any, wait_s: float = 5.0) -> None:
        for _ in range(round(wait_s / 0.01)):
            if self.membership.attention.needed:
                await self.membership.attend(self.runtime.clock.now() + 0.1)
            if condition():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it did not come to that")

    async def join(self) -> None:
        await self.attend_until(lambda: self.subscriptions.assigned == both())


def both() -> set[TopicPartition]:
    return {TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)}


@asynccontextmanager
async def stage(nodes: int = 1, **options: Any) -> AsyncIterator[Stage]:
    runtime = OsRuntime()
    async with ScriptedCluster(nodes) as cluster:
        made = Stage(ScriptedGroup(cluster), runtime, options)
        made.membership.subscription_changed()
        try:
            yield made
        finally:
            await made.membership.close(500)
            made.cluster.close()
            await runtime.close()
