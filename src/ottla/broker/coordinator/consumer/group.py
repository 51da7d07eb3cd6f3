"""The state of a consumer group of the new protocol, and what can be told from it.

A group is a pure state machine: given an event and the time, the functions beside this module
change its state at once and put records, replies and timers into the outbox. A request that is
refused raises `KafkaError`, always before anything is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.consumer.settings import ConsumerSettings
from ottla.broker.coordinator.consumer.states import ConsumerGroupState
from ottla.broker.coordinator.consumer.stored import StoredGroup
from ottla.broker.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, TopicImage
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.coordinator.classic.group import ClassicGroup
    from ottla.broker.coordinator.consumer.regex import TopicRegex
    from ottla.broker.coordinator.group import PartitionCheck

_GROUP_NOT_FOUND_FROM: Final = 9
"""The first version of OffsetCommit whose clients know the errors of the new protocol."""
_OLD_EPOCH: Final = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)


class ConsumerGroup(StoredGroup):
    """The stored group, and all that a restart may forget."""

    kind: Final = "consumer"

    def __init__(self, group_id: str, settings: ConsumerSettings, random: Random) -> None:
        super().__init__(group_id)
        self.settings = settings
        self.random = random
        self.protocol_type: str | None = PROTOCOL_TYPE
        self.image: MetadataImage = EMPTY_IMAGE
        self.successor: ClassicGroup | None = None
        """The classic group that replaces this one. It is set when no member of the new protocol is
        left."""
        self.topics_seen: Mapping[str, TopicImage] | None = None
        """The topics for which subscriptions were last resolved."""
        self.brokers_seen: Mapping[int, BrokerImage] | None = None
        self.compiled: dict[str, TopicRegex] = {}
        self.has_heartbeat = False
        """True once a member has sent one to this node."""
        self.may_describe: Callable[[str], bool] | None = None
        """Whether the member that sent the last heartbeat may describe a topic: expressions match
        no others. None if everybody may."""
        self.regexes_resolved_ms = 0
        self.revoking_in: dict[str, int] = {}
        """Member -> the epoch in which it was asked to revoke partitions."""
        self.join_asked: set[str] = set()
        """Classic members that were told to rejoin and have not done so yet."""

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_deleted:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        settled = all(
            member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()
        )
        return ConsumerGroupState.STABLE if settled else ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for."""
        votes = Counter(
            member.server_assignor
            for member in self.members.values()
            if member.server_assignor in self.settings.assignors
        )
        return max(self.settings.assignors, key=lambda name: votes[name])

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of all subscribed topics, existing or not."""
        topics = {name for member in self.members.values() for name in member.topics}
        for resolved in self.regexes.values():
            topics |= resolved.topics
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def validate_delete(self) -> ErrorCode | None:
        return None if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    # --- offsets --------------------------------------------------------------------------------

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        api_version: int,
        transactional: bool,
    ) -> PartitionCheck | None:
        """Return a check if a member commits with an older epoch: it may still commit partitions
        that it keeps."""
        if not transactional and api_version < _GROUP_NOT_FOUND_FROM:
            member = self.members.get(member_id)
            if member is not None and not member.uses_classic:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        refusal = self.validate_offset_commit(
            member_id, instance_id, generation, transactional=transactional
        )
        if refusal is None:
            return None
        if refusal not in _OLD_EPOCH:
            raise KafkaError(refusal)
        return partial(self._partition_refusal, member_id, generation, transactional)

    def _partition_refusal(
        self,
        member_id: str,
        generation: int,
        transactional: bool,
        topic: str,
        topic_id: bytes,
        partition: int,
    ) -> ErrorCode | None:
        if topic_id == ZERO_UUID and (known := self.image.topics.get(topic)) is not None:
            topic_id = known.id
        refusal = self.validate_partition_commit(member_id, generation, topic_id, partition)
        if transactional and refusal is ErrorCode.STALE_MEMBER_EPOCH:
            return ErrorCode.ILLEGAL_GENERATION  # the error that producers know
        return refusal

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool = False,
    ) -> ErrorCode | None:
        """Return why these offsets may not be committed; None if they may."""
        if generation < 0 and self.is_empty:
            return None  # a tool, or a consumer that assigns its own partitions
        anonymous = generation == -1 and not member_id and instance_id is None
        if transactional and anonymous:
            return None  # a producer that does not send its consumer's membership
        return self._epoch_refusal(member_id, generation)

    def validate_partition_commit(
        self, member_id: str, generation: int, topic_id: bytes, partition: int
    ) -> ErrorCode | None:
        """Return why one partition may not be committed. Call it for requests that
        `validate_offset_commit` refused with STALE_MEMBER_EPOCH or ILLEGAL_GENERATION. It is more
        lenient: a commit of an older epoch is accepted for a partition that the member owned then
        and still owns."""
        refusal = self._epoch_refusal(member_id, generation)
        member = self.members.get(member_id)
        if refusal is None or member is None or not 0 <= generation < member.epoch:
            return refusal
        since = member.assignment_epoch(topic_id, partition)
        return None if since is not None and since <= generation else refusal

    def validate_offset_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        if member_id is None and epoch < 0:
            return None
        return self._epoch_refusal(member_id or "", epoch)

    def _epoch_refusal(self, member_id: str, epoch: int) -> ErrorCode | None:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.epoch == epoch:
            return None
        return ErrorCode.ILLEGAL_GENERATION if member.uses_classic else ErrorCode.STALE_MEMBER_EPOCH

    def validate_offset_delete(self) -> ErrorCode | None:
        return None

    def offset_idle_since_ms(self, committed_ms: int) -> int | None:
        return committed_ms
