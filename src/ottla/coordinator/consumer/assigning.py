"""How a group moves on: epochs, target assignments, and members that follow them.

something changed -> the group's epoch grows -> a target is made for that epoch
    -> at its next heartbeats each member is brought to it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.assignors import ASSIGNORS, MemberSpec
from ottla.coordinator.consumer.member import Member, MemberState
from ottla.coordinator.consumer.reconcile import Owned, reconcile
from ottla.coordinator.consumer.settings import ConsumerSettings
from ottla.coordinator.consumer.subscriptions import Subscriptions
from ottla.coordinator.outbox import Now, Outbox
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from ottla.protocol.coordinator_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from ottla.protocol.coordinator_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from ottla.protocol.coordinator_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.protocol.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

TimerKey = tuple[str, str, str, str]

SESSION: Final = "session"
"""A member that is silent for this long is gone."""
REBALANCE: Final = "rebalance"
"""A member has this long to let go of partitions."""
JOIN: Final = "join"
"""A classic member was told to rejoin."""
SYNC: Final = "sync"
"""A classic member joined and has to ask for its assignment."""


class Assigning(Subscriptions):
    def __init__(self, group_id: str, settings: ConsumerSettings, random: Random) -> None:
        super().__init__(group_id)
        self.settings = settings
        self.random = random
        self._revoking_in: dict[str, int] = {}
        """Member -> the epoch in which it was asked to let go of something."""
        self._join_asked: set[str] = set()
        """Classic members whose time to rejoin is running."""

    # --- the group ------------------------------------------------------------------------------

    def _bump_if(self, changed: bool, now: Now, outbox: Outbox) -> None:
        """A new epoch, if the caller changed something or the topics did."""
        if not changed and not self._metadata_are_news:
            return
        changed |= self._resolve_regexes(now, outbox)
        self._topics_seen, self._brokers_seen = self.image.topics, self.image.brokers
        current = self._current_hash()
        if changed or current != self.metadata_hash:
            self._bump(current, outbox)

    def _bump(self, current_hash: int, outbox: Outbox) -> None:
        self._write(
            ConsumerGroupMetadataKey(group_id=self.group_id),
            ConsumerGroupMetadataValue(epoch=self.epoch + 1, metadata_hash=current_hash),
            outbox,
        )
        if self.has_partition_metadata:
            key = ConsumerGroupPartitionMetadataKey(group_id=self.group_id)
            self._write(key, None, outbox)

    def _assign_if_due(self, now: Now, outbox: Outbox) -> None:
        """Not too often: whoever joins meanwhile is part of the next one."""
        if self.epoch <= self.assignment_epoch:
            return
        due_ms = self.assignment_timestamp_ms + self.settings.assignment_interval_ms
        if self.assignment_timestamp_ms <= now.wall_ms < due_ms:
            return
        assign = ASSIGNORS[self.assignor]
        specs, counts = self._specs()
        for member_id, target in assign(specs, counts).items():
            if self.targets.get(member_id) != target:
                key = self._target_key(member_id)
                self._write(key, records.target_assignment(target), outbox)
        self._write_assignment_epoch(now.wall_ms, outbox)

    def _specs(self) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
        same: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
        specs = {}
        for member_id, member in self.members.items():
            wanted = (member.topics, member.regex)
            if wanted not in same:
                same[wanted] = self._topic_ids(member)
            specs[member_id] = MemberSpec(
                same[wanted], self.targets.get(member_id, {}), member.instance_id
            )
        by_id = self.image.topics_by_id
        counts = {id_: len(by_id[id_].partitions) for ids in same.values() for id_ in ids}
        return specs, counts

    def _write_assignment_epoch(self, timestamp_ms: int, outbox: Outbox) -> None:
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=timestamp_ms
        )
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        self._write(key, value, outbox)

    @property
    def assignor(self) -> str:
        """The one that most members ask for."""
        votes = Counter(
            member.server_assignor
            for member in self.members.values()
            if member.server_assignor in self.settings.assignors
        )
        return max(self.settings.assignors, key=lambda name: votes[name])

    # --- members --------------------------------------------------------------------------------

    def _follow(
        self,
        member_id: str,
        owned: Mapping[bytes, Iterable[int]] | None,
        subscription_changed: bool,
        now: Now,
        outbox: Outbox,
    ) -> None:
        """Bring the member as far towards its target as it can go now."""
        member = self.members[member_id]
        if not subscription_changed and member.is_reconciled_to(self.assignment_epoch):
            return
        updated = self._reconciled(member, owned, subscription_changed)
        if updated == member:
            return
        self._write_current(updated, outbox)
        if updated.uses_classic:
            return  # it has its own timers
        if updated.state == MemberState.UNREVOKED_PARTITIONS:
            self._start_revoking(updated, now, outbox)
        elif self._revoking_in.pop(member_id, None) is not None:
            outbox.cancel_timer(self._timer(REBALANCE, member_id))

    def _start_revoking(self, member: Member, now: Now, outbox: Outbox) -> None:
        """Its time to let go runs."""
        self._revoking_in[member.member_id] = member.epoch
        self._set_timer(REBALANCE, member.member_id, member.rebalance_timeout_ms, now, outbox)

    def _reconciled(
        self, member: Member, owned: Owned | None, subscription_changed: bool
    ) -> Member:
        def is_free(topic_id: bytes, index: int) -> bool:
            return self.owners.get(topic_id, {}).get(index) in (None, member.member_id)

        return reconcile(
            member,
            self.assignment_epoch,
            self.targets.get(member.member_id, {}),
            self._topic_ids(member),
            owned,
            is_free,
            subscription_changed,
        )

    def _waits_for_others(self, member: Member) -> bool:
        """Does another member still have what this one shall get?"""
        return any(
            self.owners.get(topic_id, {}).get(index) not in (None, member.member_id)
            for topic_id, indexes in self.targets.get(member.member_id, {}).items()
            for index in indexes
        )

    def _replace_static(self, old: Member, new_id: str, outbox: Outbox) -> None:
        """A static member is back under another id, and takes over all that was its own."""
        target = self.targets.get(old.member_id, {})
        self._write_gone(old.member_id, outbox)
        new = replace(old, member_id=new_id, epoch=0, previous_epoch=0)
        self._write_member(new, outbox)
        self._write(self._target_key(new_id), records.target_assignment(target), outbox)
        self._write_current(new, outbox)
        self._cancel_timers(old.member_id, outbox)

    def _write_member(self, member: Member, outbox: Outbox) -> None:
        key = ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member.member_id)
        self._write(key, records.member_metadata(member), outbox)

    def _write_current(self, member: Member, outbox: Outbox) -> None:
        key = records.current_key(self.group_id, member.member_id)
        self._write(key, records.current_assignment(member), outbox)

    def _write_gone(self, member_id: str, outbox: Outbox) -> None:
        """The order matters to Kafka: first what the member has, then what it is."""
        self._write(records.current_key(self.group_id, member_id), None, outbox)
        self._write(self._target_key(member_id), None, outbox)
        key = ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member_id)
        self._write(key, None, outbox)

    def _target_key(self, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
        return ConsumerGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)

    def _write_tombstones(self, outbox: Outbox) -> None:
        """Of everything; members first, the group last."""
        for member_id in list(self.members):
            self._write_gone(member_id, outbox)
        self._write(ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id), None, outbox)
        for regex in list(self.regexes):
            self._write(self._regex_key(regex), None, outbox)
        self._write(ConsumerGroupPartitionMetadataKey(group_id=self.group_id), None, outbox)
        self._write(ConsumerGroupMetadataKey(group_id=self.group_id), None, outbox)

    # --- timers ---------------------------------------------------------------------------------

    def _timer(self, purpose: str, member_id: str) -> TimerKey:
        return ("consumer", self.group_id, purpose, member_id)

    def _set_timer(
        self, purpose: str, member_id: str, after_ms: int, now: Now, outbox: Outbox
    ) -> None:
        outbox.set_timer(self._timer(purpose, member_id), now.ms + after_ms)

    def _cancel_timers(self, member_id: str, outbox: Outbox) -> None:
        self._revoking_in.pop(member_id, None)
        self._join_asked.discard(member_id)
        for purpose in (SESSION, REBALANCE, JOIN, SYNC):
            outbox.cancel_timer(self._timer(purpose, member_id))
