"""Which topics a group reads: those its members name, and those that their expressions match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.consumer.member import Member
from ottla.coordinator.consumer.metadata_hash import metadata_hash
from ottla.coordinator.consumer.regex import InvalidRegex, TopicRegex
from ottla.coordinator.consumer.stored import Resolved, StoredGroup
from ottla.coordinator.outbox import Now, Outbox
from ottla.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, TopicImage
from ottla.protocol.coordinator_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message


class Subscriptions(StoredGroup):
    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.image: MetadataImage = EMPTY_IMAGE
        self._topics_seen: Mapping[str, TopicImage] | None = None
        self._brokers_seen: Mapping[int, BrokerImage] | None = None
        self._compiled: dict[str, TopicRegex] = {}

    def subscribed_topics(self) -> frozenset[str]:
        """By name; not all of them need to exist."""
        topics = {name for member in self.members.values() for name in member.topics}
        for resolved in self.regexes.values():
            topics |= resolved.topics
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def _topic_ids(self, member: Member) -> frozenset[bytes]:
        """The topics that the member subscribes to and that exist."""
        names = member.topics
        if member.regex in self.regexes:
            names |= self.regexes[member.regex].topics
        topics = self.image.topics
        return frozenset(topics[name].id for name in names if name in topics)

    # --- changes of the metadata ----------------------------------------------------------------

    @property
    def _metadata_are_news(self) -> bool:
        """Maps of an image are replaced when they change, and never changed."""
        image = self.image
        return (
            image.topics is not self._topics_seen
            # A group of regular topics has no use for brokers but for the racks of its replicas.
            or image.brokers is not self._brokers_seen
        )

    def _current_hash(self) -> int:
        return metadata_hash(self.subscribed_topics(), self.image)

    # --- expressions ----------------------------------------------------------------------------

    def _check_regex(self, regex: str | None) -> None:
        """Refuse what is no expression, or takes too long; before anything is changed."""
        if not regex or regex in self.regexes:
            return
        try:
            self._compiled[regex] = compiled = TopicRegex(regex)
            compiled.among(self.image.topics)
        except InvalidRegex as error:
            self._compiled.pop(regex, None)
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex {regex!r} cannot be used: {error}",
            ) from error

    def _resolve_regexes(self, now: Now, outbox: Outbox) -> bool:
        """Bring all expressions up to date with the topics there are; whether anything changed."""
        changed = self._drop_unused_regexes(outbox)
        for regex in sorted(self._regexes_in_use):
            before = self.regexes.get(regex)
            topics = self._match(regex, before)
            if before is None or before.topics != topics:
                value = ConsumerGroupRegularExpressionValue(
                    topics=sorted(topics), version=self.image.offset, timestamp=now.wall_ms
                )
                self._write(self._regex_key(regex), value, outbox)
                changed = True
        return changed

    @property
    def _regexes_in_use(self) -> set[str]:
        return {member.regex for member in self.members.values() if member.regex}

    def _drop_unused_regexes(self, outbox: Outbox) -> bool:
        unused = sorted(self.regexes.keys() - self._regexes_in_use)
        for regex in unused:
            self._compiled.pop(regex, None)
            self._write(self._regex_key(regex), None, outbox)
        return bool(unused)

    def _match(self, regex: str, before: Resolved | None) -> frozenset[str]:
        names = self.image.topics
        known: frozenset[str] = frozenset()
        unknown: Iterable[str] = names
        if before is not None and self._topics_seen is not None:
            known = before.topics & names.keys()
            unknown = names.keys() - self._topics_seen.keys()
        try:
            if regex not in self._compiled:
                self._compiled[regex] = TopicRegex(regex)
            return known | self._compiled[regex].among(unknown)
        except InvalidRegex:
            # It was fine when it was subscribed to. With so many topics more, or a log written by
            # a Kafka that takes more, the group stays with what it has.
            return before.topics & names.keys() if before is not None else frozenset()

    def _regex_key(self, regex: str) -> ConsumerGroupRegularExpressionKey:
        return ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=regex)

    # --- writing --------------------------------------------------------------------------------

    def _write(self, key: Message, value: Message | None, outbox: Outbox) -> None:
        """The only way in which a live group changes what is durable about it."""
        outbox.append(key, value)
        self.replay(key, value)
