"""The members of a group, their leader, their waiting requests, and the protocols they all
support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from ottla.broker.coordinator.classic.member import Member
from ottla.protocol.errors import ErrorCode


class Members:
    def __init__(self) -> None:
        self.by_id: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id -> the member id that may use it."""
        self.pending: dict[str, None] = {}
        """Ids that were given out but have not joined yet, in order."""
        self.joining: dict[str, Any] = {}
        """Member id -> the token of its join that waits for the next generation."""
        self.syncing: dict[str, Any] = {}
        """Member id -> the token of its sync that waits for the assignment."""
        self.leader_id: str | None = None
        self._speakers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.by_id

    def __getitem__(self, member_id: str) -> Member:
        return self.by_id[member_id]

    # --- adding and removing --------------------------------------------------------------------

    def add(self, member: Member) -> None:
        assert member.member_id not in self.by_id
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.member_id
        self.by_id[member.member_id] = member
        self._speakers.update(member.protocols.keys())
        self.pending.pop(member.member_id, None)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member. The caller must have answered its waiting requests."""
        self.pending.pop(member_id, None)
        self.joining.pop(member_id, None)
        self.syncing.pop(member_id, None)
        member = self.by_id.pop(member_id, None)
        if member is not None:
            self._forget_protocols(member)
            if member.instance_id is not None:
                del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.by_id), None)

    def replace(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new id. The caller must have answered the requests of the old
        id."""
        member = self.by_id.pop(old_id).under_id(new_id)
        assert member.instance_id is not None
        self.by_id[new_id] = member
        self.static_ids[member.instance_id] = new_id
        self.joining.pop(old_id, None)
        self.syncing.pop(old_id, None)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    # --- protocols ------------------------------------------------------------------------------

    def change_protocols(self, member: Member, protocols: dict[str, bytes]) -> None:
        self._forget_protocols(member)
        member.protocols = protocols
        self._speakers.update(protocols.keys())

    def _forget_protocols(self, member: Member) -> None:
        self._speakers.subtract(member.protocols.keys())
        for name in member.protocols:
            if not self._speakers[name]:
                del self._speakers[name]

    def all_speak_one_of(self, protocols: Collection[str]) -> bool:
        return any(self._speakers[name] == len(self.by_id) for name in protocols)

    def elected_protocol(self) -> str:
        """Elect a protocol. Each member votes for its first protocol that all members support; on a
        tie the vote of the earliest member decides."""
        common = {name for name, speakers in self._speakers.items() if speakers == len(self.by_id)}
        votes = Counter(
            next(name for name in member.protocols if name in common) for member in self
        )
        return max(votes, key=lambda name: votes[name])

    # --- rebalances -----------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.by_id) and not self.pending

    @property
    def not_joined(self) -> list[Member]:
        return [member for member in self if member.member_id not in self.joining]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def elect_leader_among_joined(self) -> bool:
        """Keep the leader if it joined, else elect the first member that did; False if nobody
        did."""
        if self.leader_id not in self.joining:
            joined = next(
                (member_id for member_id in self.by_id if member_id in self.joining), None
            )
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def refusal(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Return why a request that claims to come from this member is refused; None if it is
        not."""
        if instance_id is not None:
            owner = self.static_ids.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID
