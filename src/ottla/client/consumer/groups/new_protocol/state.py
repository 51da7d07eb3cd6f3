"""The state of a member of the new protocol (KIP-848), and what each response means.

The coordinator assigns the partitions. A heartbeat tells it what this member wants and holds; the
response has the member's target. The member moves to it in steps:

    target differs from held ──> give up what is not in it ──> take what is new ──> heartbeat: held

A target never contains partitions that another member still holds, so there is no waiting here.

                  join                 answered
    OUT, LOST ──────────> JOINING ──────────────────> MEMBER
        ^                    │                          │
        └────────────────────┴──── fenced, unknown, ────┘
                                   not polled, left

Nothing here sends or waits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from ottla.client.consumer.groups.commit_requests import NOBODY, MemberIdentity
from ottla.client.consumer.groups.commits import Refusal
from ottla.client.consumer.groups.errors import (
    explained,
    given_away,
    not_a_member,
    rebalancing,
    taken_by_members,
)
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.client.group")

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
OWN_MEMBER_ID_FROM = 1
REGEX_FROM = 1

Held = dict[bytes, frozenset[int]]
"""Partition numbers by topic id."""


class Phase(Enum):
    OUT = "not in the group"
    JOINING = "asking to be let in"
    MEMBER = "in the group"
    LOST = "thrown out: the listener is to be told before joining again"


class Next(Enum):
    LATER = "send it again after a pause"
    ELSEWHERE = "look for the coordinator, then send it again"
    REJOIN = "the partitions are lost; join again when the application polls"


class Wanted(NamedTuple):
    topics: frozenset[str]
    regex: str | None
    """A pattern for the coordinator to match."""


class Plan(NamedTuple):
    """The steps from the held partitions to the target, as far as its topic names are known."""

    revoke: frozenset[TopicPartition]
    add: frozenset[TopicPartition]
    held: Held
    unresolved: frozenset[bytes]
    """Ids of topics whose names must be looked up."""

    @property
    def changes(self) -> bool:
        return bool(self.revoke or self.add)


@dataclass(slots=True)
class _Sent:
    """The fields last sent to the coordinator: only changes are sent again."""

    wanted: Wanted | None = None
    held: Held | None = None
    constants: bool = False


class NewProtocolState:
    def __init__(self, settings: ConsumerSettings, member_id: str) -> None:
        assert settings.group_id is not None
        self._settings = settings
        self._group_id = settings.group_id
        self.member_id = member_id
        self.phase = Phase.OUT
        self.epoch = JOIN_EPOCH
        self.term = 0
        """Grows whenever the member joins or leaves, so that late responses are recognized."""
        self.target: Held = {}
        self.held: Held = {}
        self.names: dict[bytes, str] = {}
        """Names by topic id, for topics that are assigned or will be."""
        self._sent = _Sent()
        self._last_known = GroupMetadata(
            self._group_id, group_instance_id=settings.group_instance_id
        )

    # Identity

    @property
    def identity(self) -> MemberIdentity:
        return MemberIdentity(self.epoch, self.member_id, self._settings.group_instance_id)

    def metadata(self) -> GroupMetadata:
        """Return this member's last known metadata. After its partitions are lost, a transaction
        with records of them must be refused, but coordinators accept offsets without a member."""
        return self._last_known

    def identity_for_commit(self) -> MemberIdentity:
        if self.phase is not Phase.MEMBER:
            raise not_a_member(self._group_id)
        return self.identity

    # Joining and leaving

    def join(self) -> None:
        self._begin(Phase.JOINING)

    def lose(self) -> None:
        """Note that the group has taken back the partitions, or soon will."""
        self._begin(Phase.LOST)

    def leave(self) -> None:
        self._begin(Phase.OUT)

    def _begin(self, phase: Phase) -> None:
        self.phase = phase
        self.epoch = JOIN_EPOCH
        self.term += 1
        self.target = {}
        self.held = {}
        self._sent = _Sent()

    # Heartbeats

    def request(self, wanted: Wanted, version: int) -> Any:
        from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        settings, sent = self._settings, self._sent
        if self.phase is Phase.JOINING and version < OWN_MEMBER_ID_FROM:
            self.member_id = ""  # before KIP-1082 the coordinator assigns it
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=settings.group_instance_id,
        )
        if not sent.constants:
            request.rebalance_timeout_ms = settings.max_poll_interval_ms
            request.rack_id = settings.client_rack or None
            request.server_assignor = settings.group_remote_assignor
        if sent.wanted != wanted:
            self._put_wanted(request, wanted, version)
        if sent.held != self.held:
            request.topic_partitions = _packed(self.held)
        self._sent = _Sent(wanted, dict(self.held), constants=True)
        return request

    def is_news(self, wanted: Wanted) -> bool:
        """True if the coordinator was told another subscription."""
        return self._sent.wanted not in (None, wanted)

    def _put_wanted(self, request: Any, wanted: Wanted, version: int) -> None:
        before = self._sent.wanted
        request.subscribed_topic_names = sorted(wanted.topics)
        if wanted.regex is not None and version < REGEX_FROM:
            raise explained(
                ErrorCode.UNSUPPORTED_VERSION,
                self._settings,
                "the broker is too old to match patterns: give a compiled one (re.compile)",
            )
        if wanted.regex is not None:
            request.subscribed_topic_regex = wanted.regex
        elif before is not None and before.regex is not None:
            request.subscribed_topic_regex = ""  # removes the pattern

    def leave_request(self, epoch: int, member_id: str) -> Any:
        from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=self._settings.group_instance_id,
        )

    @property
    def leave_epoch(self) -> int:
        """The epoch to leave with. The group keeps a static member's partitions for its return."""
        return LEAVE_EPOCH if self._settings.group_instance_id is None else STATIC_LEAVE_EPOCH

    def answered(self, answer: Any) -> bool:
        """Handle a response, and return whether it brings a new target."""
        self.phase = Phase.MEMBER
        self.epoch = answer.member_epoch
        if answer.member_id:
            self.member_id = answer.member_id
        self._last_known = GroupMetadata(self._group_id, *self.identity)
        if answer.assignment is None:
            return False
        target = {
            one.topic_id: frozenset(one.partitions) for one in answer.assignment.topic_partitions
        }
        is_new, self.target = target != self.target, target
        return is_new

    def forget_sent(self) -> None:
        """Send everything again: it is unknown what the coordinator received before a failure."""
        self._sent = _Sent()

    def refused(self, code: ErrorCode, message: str | None) -> Next:
        """Return what to do after an error. Raises errors for the application."""
        self.forget_sent()
        match code:
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return Next.ELSEWHERE
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return Next.LATER
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                log.info("group %s: %s: joining again", self._group_id, code.name)
                self.lose()
                return Next.REJOIN
            case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise explained(code, self._settings, message)  # still a member
            case _ if code.retriable:
                return Next.LATER
            case _:
                self.lose()
                raise explained(code, self._settings, message)

    # Partitions

    def plan(self, known: Mapping[bytes, str]) -> Plan:
        """Return the steps to the target. `known` has topic names by id."""
        self.names |= {one: known[one] for one in self.target if one in known}
        resolved = {one: part for one, part in self.target.items() if one in self.names}
        return Plan(
            revoke=self._named(_minus(self.held, resolved)),
            add=self._named(_minus(resolved, self.held)),
            held=resolved,
            unresolved=frozenset(self.target.keys() - self.names.keys()),
        )

    def reconciled(self, held: Held) -> None:
        self.held = held
        self.names = {one: self.names[one] for one in held}

    def _named(self, held: Held) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(self.names[topic_id], index)
            for topic_id, indexes in held.items()
            for index in indexes
        )

    # Commits

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None:
        match code:
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION if sent == NOBODY:
                return Refusal(taken_by_members(self._group_id), retry=False)
            case ErrorCode.STALE_MEMBER_EPOCH:
                return Refusal(rebalancing(self._group_id), retry=self.phase is Phase.MEMBER)
            case (
                ErrorCode.UNKNOWN_MEMBER_ID
                | ErrorCode.ILLEGAL_GENERATION
                | ErrorCode.FENCED_MEMBER_EPOCH
            ):
                return Refusal(given_away(self._group_id), retry=False)
            case ErrorCode.FENCED_INSTANCE_ID:
                return Refusal(explained(code, self._settings), retry=False)
            case _:
                return None


def _minus(these: Held, those: Held) -> Held:
    return {one: part - those.get(one, frozenset()) for one, part in these.items()}


def _packed(held: Held) -> list[Any]:
    from ottla.protocol.messages.consumer_group_heartbeat import TopicPartitions

    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(held.items())
        if indexes
    ]
