"""Members that come, stay silent, leave; whichever protocol they speak."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.consumer.assigning import REBALANCE, Assigning, TimerKey
from ottla.coordinator.consumer.downgrade import to_classic
from ottla.coordinator.consumer.member import STATIC_LEAVING_EPOCH, Member, MemberState
from ottla.coordinator.outbox import Now, Outbox
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import random_uuid, to_text


class Members(Assigning):
    successor: ClassicGroup | None = None
    """The classic group that takes this one's place: set when the last member of the new protocol
    has gone and only classic ones are left."""

    # --- who it is ------------------------------------------------------------------------------

    def _new_member_id(self) -> str:
        return to_text(random_uuid(self.random))

    def _check_room(self) -> None:
        """For a newcomer; a static member that comes back takes its old place."""
        most = self.settings.members_max
        if len(self.members) >= most:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id} has the {most} members it may have",
            )

    def _known(self, member_id: str, instance_id: str | None) -> Member:
        """The member that sends a request; `KafkaError` if it is not one, or no longer."""
        if instance_id is not None:
            owner = self.static_ids.get(instance_id)
            if owner is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"no member of group {self.group_id} has the instance id {instance_id}",
                )
            if owner != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"member {owner} has taken over the instance id {instance_id}",
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {self.group_id}"
            )
        return member

    # --- going ----------------------------------------------------------------------------------

    def _remove(self, leaving: Collection[Member], now: Now, outbox: Outbox) -> None:
        """They are gone for good, and what they had is free."""
        downgrades = self._would_downgrade(leaving)
        for member in leaving:
            self._write_gone(member.member_id, outbox)
            self._cancel_timers(member.member_id, outbox)
        if downgrades:
            self._downgrade("the last member of the consumer protocol left", now, outbox)
            return
        self._drop_unused_regexes(outbox)
        self._bump(self._current_hash(), outbox)

    def _leave_for_a_while(self, member: Member, outbox: Outbox) -> None:
        """A static member keeps its partitions, as long as its session lasts."""
        self._write_current(
            replace(
                member,
                epoch=STATIC_LEAVING_EPOCH,
                assigned={
                    topic_id: dict.fromkeys(indexes, 0)
                    for topic_id, indexes in member.assigned.items()
                },
                revoking={},
            ),
            outbox,
        )

    def timer_fired(self, key: TimerKey, now: Now, outbox: Outbox) -> None:
        """A member did not do in time what it was to do: it is fenced."""
        purpose, member_id = key[2:]
        member = self.members.get(member_id)
        if member is None:
            return
        if purpose == REBALANCE:
            epoch = self._revoking_in.pop(member_id, None)
            if member.state != MemberState.UNREVOKED_PARTITIONS or member.epoch != epoch:
                return  # it let go, and is at the next
        self._remove([member], now, outbox)

    # --- the way back ---------------------------------------------------------------------------

    def _would_downgrade(self, leaving: Collection[Member]) -> bool:
        """Is nobody left who speaks the new protocol, and somebody who speaks the old?"""
        gone = {member.member_id for member in leaving}
        staying = [member for id_, member in self.members.items() if id_ not in gone]
        return (
            bool(staying)
            and any(not member.uses_classic for member in leaving)
            and all(member.uses_classic for member in staying)
            and self.settings.may_downgrade
            and len(staying) <= self.settings.classic.members_max
        )

    def _downgrade(self, reason: str | None, now: Now, outbox: Outbox) -> None:
        """Without a reason there is none to rebalance: everybody goes on with what they have."""
        members, targets, generation = list(self.members.values()), dict(self.targets), self.epoch
        for member in members:
            self._cancel_timers(member.member_id, outbox)
        self._write_tombstones(outbox)
        classic = ClassicGroup(self.group_id, self.settings.classic, self.random)
        to_classic(classic, members, targets, generation, self.image, now, outbox)
        if reason is not None:
            classic.rebalance(reason, now, outbox)
        self.successor = classic
