"""The state of a classic group member, and what each response of the coordinator means.

                    join sent             join answered            sync answered
    UNJOINED ────────────────> JOINING ──────────────────> SYNCING ──────────────> STABLE
       ^  ^                       ^                           │                     │  │
       │  └── unknown member id ──┤<── rebalance in progress ─┘                     │  │
       │                          └──────────── rejoin, partitions prepared ────────┘  │
       └───────────── left, or thrown out: generation and partitions are lost ─────────┘

Nothing here sends or waits: each event returns what to do next.
"""

from __future__ import annotations

import logging
from enum import Enum

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
from ottla.client.values import GroupMetadata
from ottla.protocol.errors import ErrorCode

log = logging.getLogger("ottla.client.group")

NO_GENERATION = -1
NO_MEMBER = ""


class Phase(Enum):
    UNJOINED = "not in the group"
    JOINING = "waiting for all members to join"
    SYNCING = "waiting for the leader's assignment"
    STABLE = "in the group"


class Next(Enum):
    """The next step after a response."""

    AGAIN = "join again at once"
    LATER = "join again after a pause"
    ELSEWHERE = "look for the coordinator, then join again"
    PREPARE = "the partitions are lost: tell the listener, then join again"


class ClassicState:
    def __init__(self, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self._settings = settings
        self._group_id = settings.group_id
        self.phase = Phase.UNJOINED
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.protocol_name: str | None = None
        self.is_leader = False
        self.rejoin_reason: str | None = ""
        """The reason to join; None if there is no need to."""
        self.must_prepare = True
        """Whether partitions must be given up, as the protocol requires, before joining."""
        self._last_known = GroupMetadata(self._group_id, *self.identity)

    # Identity

    @property
    def identity(self) -> MemberIdentity:
        return MemberIdentity(self.generation, self.member_id, self._settings.group_instance_id)

    @property
    def has_lost_partitions(self) -> bool:
        """True if the group no longer knows this member, so that its assignment is void."""
        return self.generation == NO_GENERATION or self.member_id == NO_MEMBER

    @property
    def is_rebalancing(self) -> bool:
        return self.phase in (Phase.JOINING, Phase.SYNCING)

    @property
    def beats(self) -> bool:
        """True if the coordinator expects heartbeats."""
        return self.phase in (Phase.SYNCING, Phase.STABLE)

    def metadata(self) -> GroupMetadata:
        """Return this member's last known metadata. After its partitions are lost, a transaction
        with records of them must be refused, but coordinators accept offsets without a member."""
        return self._last_known

    # Events

    def request_rejoin(self, reason: str) -> None:
        if self.rejoin_reason is None:
            log.info("group %s: joining again: %s", self._group_id, reason)
        self.rejoin_reason = reason

    def reset(self, reason: str, *, keep_member_id: bool = False) -> None:
        """Leave the group; the partitions are lost."""
        self.phase = Phase.UNJOINED
        self.generation = NO_GENERATION
        self.protocol_name = None
        if not keep_member_id:
            self.member_id = NO_MEMBER
        self.must_prepare = True
        self.rejoin_reason = reason

    def prepared(self) -> None:
        self.must_prepare = False
        self.is_leader = False

    def join_sent(self) -> None:
        self.phase = Phase.JOINING

    def joined(self, generation: int, member_id: str, protocol: str | None, leader: str) -> None:
        self.phase = Phase.SYNCING
        self.generation = generation
        self.member_id = member_id
        self.protocol_name = protocol
        self.is_leader = leader == member_id

    def synced(self) -> None:
        self.phase = Phase.STABLE
        self._last_known = GroupMetadata(self._group_id, *self.identity)
        self.rejoin_reason = None

    def applied(self) -> None:
        """Note that the assignment is applied: the next rebalance first gives up partitions."""
        self.must_prepare = True

    # Refusals

    def join_refused(self, code: ErrorCode, sent: MemberIdentity, given_id: str) -> Next:
        match code:
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = given_id
                self.generation = NO_GENERATION
                return Next.AGAIN
            case ErrorCode.UNKNOWN_MEMBER_ID:
                return self._out(code, "JoinGroup", sent)
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return Next.LATER
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return Next.ELSEWHERE
            case _:
                raise explained(code, self._settings)

    def sync_refused(self, code: ErrorCode, sent: MemberIdentity) -> Next:
        match code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                return Next.AGAIN
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                return self._out(code, "SyncGroup", sent)
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return Next.LATER
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return Next.ELSEWHERE
            case _:
                raise explained(code, self._settings)

    def heartbeat_refused(self, code: ErrorCode, sent: MemberIdentity) -> Next | None:
        """Return None if heartbeats can go on as usual. Raises errors for the application."""
        match code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                if self.phase is Phase.STABLE:
                    self.request_rejoin("the group is rebalancing")
                return None
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return Next.ELSEWHERE
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                return None if sent != self.identity else self._out(code, "Heartbeat", sent)
            case ErrorCode.FENCED_INSTANCE_ID:
                if sent != self.identity:
                    return None
                self._out(code, "Heartbeat", sent)
                raise explained(code, self._settings)
            case ErrorCode.GROUP_AUTHORIZATION_FAILED:
                raise explained(code, self._settings)
            case _:
                return Next.LATER

    def commit_refused(self, code: ErrorCode, sent: MemberIdentity) -> Refusal | None:
        match code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.request_rejoin("a commit met a rebalance")
                return Refusal(rebalancing(self._group_id), retry=False)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                if sent == NOBODY:
                    return Refusal(taken_by_members(self._group_id), retry=False)
                if sent != self.identity and self.phase is Phase.JOINING:
                    return Refusal(rebalancing(self._group_id), retry=False)
                self._out(code, "OffsetCommit", sent)
                return Refusal(given_away(self._group_id), retry=False)
            case ErrorCode.FENCED_INSTANCE_ID if sent != self.identity:
                interrupted = self.phase is Phase.JOINING
                told = rebalancing(self._group_id) if interrupted else given_away(self._group_id)
                return Refusal(told, retry=False)
            case ErrorCode.FENCED_INSTANCE_ID:
                return Refusal(explained(code, self._settings), retry=False)
            case _:
                return None

    def identity_for_commit(self) -> MemberIdentity:
        if self.phase is Phase.STABLE:
            return self.identity
        if self.is_rebalancing:
            raise rebalancing(self._group_id)
        raise not_a_member(self._group_id)

    def _out(self, code: ErrorCode, what: str, sent: MemberIdentity) -> Next:
        """Reset the member, unless the response concerns an earlier generation."""
        if sent == self.identity:
            # After ILLEGAL_GENERATION the member id may still be valid. Keeping it leaves no dead
            # member for the group to wait for.
            keep = code is ErrorCode.ILLEGAL_GENERATION
            reason = f"{what} was answered with {code.name}"
            log.info("group %s: out of the group: %s", self._group_id, reason)
            self.reset(reason, keep_member_id=keep)
        return Next.PREPARE
