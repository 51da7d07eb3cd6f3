"""A classic group on a stage: virtual time, its timers, clients that talk to it, what it stores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any

from ottla.broker.coordinator.classic import joining, requests, stored
from ottla.broker.coordinator.classic.client import Client
from ottla.broker.coordinator.classic.group import ClassicGroup
from ottla.broker.coordinator.classic.rebalancing import loaded, timer_fired
from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.outbox import CoordinatorRecord, Now, Outbox
from ottla.broker.coordinator.record_codec import GROUP_RECORDS, decode, encode
from ottla.protocol.consumer_protocol import write
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

WALL_MS = 1_700_000_000_000
NEWEST = 9
SESSION_MS = 10_000
REBALANCE_MS = 60_000
REQUESTS: dict[str, Callable[..., None]] = {
    "join": joining.join,
    "sync": requests.sync,
    "heartbeat": requests.heartbeat,
    "leave": requests.leave,
}


class Call:
    """A request on its way: what came back, and how often."""

    def __init__(self, sender: str, kind: str) -> None:
        self.sender = sender
        self.kind = kind
        self.answers: list[Any] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{self} has {len(self.answers)} answers"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode.of(self.answer.error_code)

    def __repr__(self) -> str:
        return f"{self.kind} of {self.sender}"


class Stage:
    def __init__(self, settings: GroupSettings | None = None, *, seed: int = 0) -> None:
        self.settings = settings or GroupSettings()
        self.random = Random(seed)
        self.group = ClassicGroup("g", self.settings, self.random)
        self.now_ms = 0
        self.timers: dict[Hashable, int] = {}
        self.calls: list[Call] = []
        self.log: list[CoordinatorRecord] = []
        self.on_step: Callable[[Outbox], None] = lambda outbox: None

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    # --- steps ----------------------------------------------------------------------------------

    def step(self, what: Callable[[Now, Outbox], None]) -> None:
        outbox = Outbox()
        what(self.now, outbox)
        self.log += outbox.records
        for key, due_ms in outbox.timers.items():
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms
        for call, response in outbox.replies:
            call.answers.append(response)
        self.on_step(outbox)

    def call(self, sender: str, kind: str, request: Any, version: int = NEWEST) -> Call:
        call = Call(sender, kind)
        self.calls.append(call)
        client = Client(sender, f"/{sender}", version)
        handle = REQUESTS[kind]
        who = (client,) if kind == "join" else ()
        self.step(lambda now, outbox: handle(self.group, request, *who, call, now, outbox))
        return call

    def pass_time(self, ms: int) -> None:
        """Fire what falls due on the way, in order."""
        end_ms = self.now_ms + ms
        while self.timers:
            key, due_ms = min(self.timers.items(), key=lambda item: (item[1], str(item[0])))
            if due_ms > end_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, due_ms)
            assert isinstance(key, tuple)
            self.step(partial(timer_fired, self.group, key))
        self.now_ms = end_ms

    def reload(self, settings: GroupSettings | None = None) -> None:
        """The coordinator restarts, or another one takes over: only what was stored is left."""
        self.settings = settings or self.settings
        self.group = replayed(self.log, self.settings, self.random)
        self.timers.clear()
        self.step(lambda now, outbox: loaded(self.group, now, outbox))

    # --- requests -------------------------------------------------------------------------------

    def join(
        self,
        sender: str,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | Iterable[str] = ("range",),
        protocol_type: str = "consumer",
        version: int = NEWEST,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        reason: str | None = None,
    ) -> Call:
        if not isinstance(protocols, Mapping):
            protocols = {name: subscription(["t"]) for name in protocols}
        request = JoinGroupRequest(
            group_id="g",
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols.items()
            ],
            reason=reason,
        )
        return self.call(sender, "join", request, version)

    def enter(self, sender: str, **options: Any) -> tuple[str, Call]:
        """Join as a dynamic client does: ask for an id, then join with it."""
        asked = self.join(sender, **options)
        assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
        member_id = asked.answer.member_id
        return member_id, self.join(sender, member_id, **options)

    def sync(
        self,
        sender: str,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = None,
    ) -> Call:
        request = SyncGroupRequest(
            group_id="g",
            member_id=member_id,
            group_instance_id=instance,
            generation_id=self.group.generation if generation is None else generation,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=work)
                for name, work in (assignments or {}).items()
            ],
        )
        return self.call(sender, "sync", request)

    def heartbeat(
        self,
        sender: str,
        member_id: str,
        generation: int | None = None,
        *,
        instance: str | None = None,
    ) -> Call:
        request = HeartbeatRequest(
            group_id="g",
            member_id=member_id,
            group_instance_id=instance,
            generation_id=self.group.generation if generation is None else generation,
        )
        return self.call(sender, "heartbeat", request)

    def leave(self, sender: str, *members: tuple[str, str | None]) -> Call:
        request = LeaveGroupRequest(
            group_id="g",
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in members
            ],
        )
        return self.call(sender, "leave", request)

    # --- short ways -----------------------------------------------------------------------------

    def stable(self, *senders: str, **options: Any) -> dict[str, str]:
        """A stable group of these clients; name -> member id. The first one leads."""
        joins = {}
        for sender in senders:
            member_id, call = self.enter(sender, **options)
            joins[sender] = (member_id, call)
        self.pass_time(self.settings.initial_rebalance_delay_ms * (len(senders) + 1))
        ids = {sender: member_id for sender, (member_id, _) in joins.items()}
        self.synced(ids)
        return ids

    def synced(self, ids: Mapping[str, str], instances: Mapping[str, str] | None = None) -> None:
        """Everybody syncs; each is assigned its own name."""
        leader = next(name for name, id in ids.items() if id == self.group.members.leader_id)
        work = {id: name.encode() for name, id in ids.items()}
        for name in [leader, *(name for name in ids if name != leader)]:
            instance = (instances or {}).get(name)
            call = self.sync(name, ids[name], assignments=work, instance=instance)
            assert call.error is ErrorCode.NONE
            assert call.answer.assignment == name.encode()

    @property
    def state(self) -> str:
        return self.group.state.value


def subscription(topics: list[str], version: int = 3) -> bytes:
    return write(ConsumerProtocolSubscription(topics=topics), version)


def replayed(
    log: Iterable[CoordinatorRecord], settings: GroupSettings, random: Random | None = None
) -> ClassicGroup:
    """The group that a restart would find, by way of the bytes."""
    random = random or Random(1)
    group = ClassicGroup("g", settings, random)
    for record in log:
        found = decode(*encode(record), GROUP_RECORDS)
        assert found is not None
        if found.value is None:
            group = ClassicGroup("g", settings, random)
        else:
            stored.replay(group, found.value)  # type: ignore[arg-type]
    return group


def durable(group: ClassicGroup) -> dict[str, Any]:
    """What a restart must not lose."""
    return {
        "state": group.state,
        "since": group.state_since_ms,
        "generation": group.generation,
        "protocol type": group.protocol_type,
        "protocol": group.protocol_name,
        "leader": group.members.leader_id,
        "topics": group.subscribed_topics,
        "members": {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.protocols.get(group.protocol_name or ""),
                member.assignment,
            )
            for member in group.members
        },
    }
