"""Consumers as they behave towards a group: honest, but slow, forgetful or dead."""

from __future__ import annotations

from typing import Any

from consumer_stage import GROUP, Stage, beating, joining, owning, told

from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.consumer.assignors import ASSIGNORS, MemberSpec
from ottla.broker.coordinator.consumer.topic_names import write_assignment
from ottla.protocol.consumer_protocol import read_assignment, read_subscription, write
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

Partition = tuple[bytes, int]

FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Consumer:
    """A member of the new protocol. `owned` is what it reads from; nothing else counts."""

    def __init__(self, name: str, static: bool) -> None:
        self.name = name
        self.instance_id = name if static else None
        self.lives = 0
        self.member_id = ""
        self.epoch = 0
        self.is_alive = False
        self.topics: list[str] = []
        self.regex = ""
        self.owned: set[Partition] = set()
        self.assigned: set[Partition] = set()
        self._reported: set[Partition] | None = None
        self._changed = False
        self._unsure = False

    # --- life -----------------------------------------------------------------------------------

    def start(self, topics: list[str], regex: str) -> None:
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.is_alive = True
        self.subscribe(topics, regex)
        self._forget()

    def subscribe(self, topics: list[str], regex: str) -> None:
        self.topics, self.regex = topics, regex
        self._changed = True

    def crash(self) -> None:
        self.is_alive = False
        self._forget()

    def leave(self, stage: Stage, for_good: bool) -> None:
        epoch = -1 if for_good or self.instance_id is None else -2
        self.crash()
        stage.heartbeat(beating(self.member_id, epoch, instance_id=self.instance_id))

    def _forget(self) -> None:
        self.epoch = 0
        self.owned = set()
        self.assigned = set()
        self._reported = None
        self._unsure = False

    # --- heartbeats -----------------------------------------------------------------------------

    def beat(self, stage: Stage, answer_arrives: bool = True) -> None:
        response = stage.heartbeat(self._request())
        if not answer_arrives:
            self._unsure = True
            return
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.UNRELEASED_INSTANCE_ID:
            return
        if code in FENCED:
            self._forget()
            return
        assert code is ErrorCode.NONE, (code, response.error_message)
        assert response.member_epoch >= self.epoch, "epochs only grow"
        self.epoch = response.member_epoch
        self._changed = self._unsure = False
        partitions = told(response)
        if partitions is not None:
            self.assigned = partitions

    def _request(self) -> Any:
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        full = self.epoch == 0 or self._unsure
        if full or self._changed:
            fields["subscribed_topic_names"] = self.topics
            fields["subscribed_topic_regex"] = self.regex
        if self.epoch == 0:
            return joining(self.member_id, **fields)
        if full or self._reported != self.owned:
            self._reported = set(self.owned)
            grouped: dict[bytes, list[int]] = {}
            for topic_id, index in self.owned:
                grouped.setdefault(topic_id, []).append(index)
            fields["topic_partitions"] = owning(grouped)
        if full:
            fields["rebalance_timeout_ms"] = 60_000
        return beating(self.member_id, self.epoch, **fields)

    def take_up(self) -> None:
        """It begins to read what is new."""
        self.owned |= self.assigned

    def let_go(self) -> None:
        """It stops reading what is no longer its own."""
        self.owned &= self.assigned

    def is_member(self, stage: Stage) -> bool:
        group = stage.groups.get(GROUP)
        return group is not None and self.member_id in group.members


class ClassicConsumer:
    """A member of the classic protocol, of the eager kind: it lets go of everything to rejoin."""

    SESSION_MS = 30_000
    REBALANCE_MS = 60_000

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = False
        self.topics: list[str] = []
        self._reset()

    def _reset(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.owned: set[Partition] = set()
        self._next = "join"
        self._waiting: Any = None
        self._joined: JoinGroupResponse | None = None

    # --- life -----------------------------------------------------------------------------------

    def start(self, topics: list[str]) -> None:
        self._reset()
        self.is_alive = True
        self.topics = topics

    def crash(self) -> None:
        self._reset()
        self.is_alive = False

    def disconnected(self) -> None:
        """No answer will come to what it asked; it asks again."""
        self._waiting = None

    def leave(self, stage: Stage) -> None:
        identity = MemberIdentity(member_id=self.member_id)
        stage.serve(LeaveGroupRequest(group_id=GROUP, members=[identity]))
        self.crash()

    def is_member(self, stage: Stage) -> bool:
        group = stage.groups.get(GROUP)
        return group is not None and self.member_id in group.members

    # --- one thing at a time --------------------------------------------------------------------

    def step(self, stage: Stage) -> None:
        """Look for an answer, or send what is next."""
        if self._waiting is not None:
            if self._waiting in stage.replies:
                response, self._waiting = stage.replies[self._waiting], None
                self._take(response, stage)
            return
        request: Any
        if self._next == "join":
            self.owned = set()
            request = self._join()
        elif self._next == "sync":
            request = self._sync(stage)
        else:
            request = HeartbeatRequest(
                group_id=GROUP, member_id=self.member_id, generation_id=self.generation
            )
        response = stage.serve(request, Client(self.name, "/127.0.0.1", 9))
        if type(response) is object:
            self._waiting = response
        else:
            self._take(response, stage)

    def _join(self) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(topics=self.topics)
        return JoinGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            session_timeout_ms=self.SESSION_MS,
            rebalance_timeout_ms=self.REBALANCE_MS,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=write(subscription, 1)),
            ],
        )

    def _sync(self, stage: Stage) -> SyncGroupRequest:
        assert self._joined is not None
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
        )
        if self._joined.leader == self.member_id:
            request.assignments = _led(self._joined, stage)
        return request

    def _take(self, response: Any, stage: Stage) -> None:
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._reset()
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._next = "join"
        else:
            assert code is ErrorCode.NONE, code
            self._go_on(response, stage)

    def _go_on(self, response: Any, stage: Stage) -> None:
        if isinstance(response, JoinGroupResponse):
            self.member_id, self.generation = response.member_id, response.generation_id
            self._joined = response
            self._next = "sync"
        elif isinstance(response, SyncGroupResponse):
            self._next = "heartbeat"
            assignment = read_assignment(response.assignment)
            self.owned = {
                (stage.image.topics[one.topic].id, index)
                for one in assignment.assigned_partitions
                for index in one.partitions
                if one.topic in stage.image.topics
            }


def _led(joined: JoinGroupResponse, stage: Stage) -> list[SyncGroupRequestAssignment]:
    """What a leader does: assign by range, topic by topic."""
    topics = stage.image.topics
    specs = {
        member.member_id: MemberSpec(
            frozenset(
                topics[name].id
                for name in read_subscription(member.metadata).topics
                if name in topics
            )
        )
        for member in joined.members
    }
    counts = {topic.id: len(topic.partitions) for topic in topics.values()}
    assigned = ASSIGNORS["range"](specs, counts)
    return [
        SyncGroupRequestAssignment(
            member_id=member_id, assignment=write_assignment(partitions, 1, stage.image)
        )
        for member_id, partitions in assigned.items()
    ]
