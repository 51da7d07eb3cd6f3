"""The topics that a group reads: those that its members name, and those that their expressions
match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.coordinator.consumer.group import ConsumerGroup
from ottla.broker.coordinator.consumer.member import Member
from ottla.broker.coordinator.consumer.metadata_hash import metadata_hash
from ottla.broker.coordinator.consumer.regex import InvalidRegex, TopicRegex
from ottla.broker.coordinator.consumer.stored import Resolved
from ottla.broker.coordinator.consumer.writing import write_regex
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.protocol.coordinator_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionValue,
)
from ottla.protocol.errors import ErrorCode, KafkaError

RIGHTS_REFRESH_MS: Final = 600_000
"""How often expressions are resolved anew although topics have not changed, because members may
have got or lost rights; as in Kafka."""


def topic_ids(group: ConsumerGroup, member: Member) -> frozenset[bytes]:
    """Return the ids of the existing topics that the member subscribes to."""
    names = member.topics
    if member.regex in group.regexes:
        names |= group.regexes[member.regex].topics
    topics = group.image.topics
    return frozenset(topics[name].id for name in names if name in topics)


# --- changes of the metadata --------------------------------------------------------------------


def metadata_changed(group: ConsumerGroup) -> bool:
    """True if topics or brokers have changed. Maps of an image are immutable and are replaced on
    change."""
    image = group.image
    return (
        image.topics is not group.topics_seen
        # Brokers matter because of the racks of replicas.
        or image.brokers is not group.brokers_seen
    )


def rights_may_have_changed(group: ConsumerGroup, now: Now) -> bool:
    """True if expressions were resolved long ago, and members may see more or fewer topics now."""
    return (
        group.may_describe is not None
        and bool(group.regexes)
        and now.wall_ms - group.regexes_resolved_ms >= RIGHTS_REFRESH_MS
    )


def rights_are_unknown(group: ConsumerGroup) -> bool:
    """True for a loaded group with expressions before its first heartbeat: only that says which
    topics they may match, and they keep those that they have."""
    return not group.has_heartbeat and bool(_regexes_in_use(group))


def current_hash(group: ConsumerGroup) -> int:
    return metadata_hash(group.subscribed_topics(), group.image)


# --- regular expressions ------------------------------------------------------------------------


def check_regex(group: ConsumerGroup, regex: str | None) -> None:
    """Refuse an invalid or too costly expression, before anything is changed."""
    if not regex or regex in group.regexes:
        return
    try:
        group.compiled[regex] = compiled = TopicRegex(regex)
        compiled.among(group.image.topics)
    except InvalidRegex as error:
        group.compiled.pop(regex, None)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {regex!r} cannot be used: {error}",
        ) from error


def resolve_regexes(group: ConsumerGroup, now: Now, outbox: Outbox) -> bool:
    """Update the topics of all expressions; True if anything changed."""
    changed = drop_unused_regexes(group, outbox)
    group.regexes_resolved_ms = now.wall_ms
    for regex in sorted(_regexes_in_use(group)):
        before = group.regexes.get(regex)
        topics = _match(group, regex, before)
        if before is None or before.topics != topics:
            value = ConsumerGroupRegularExpressionValue(
                topics=sorted(topics), version=group.image.offset, timestamp=now.wall_ms
            )
            write_regex(group, regex, value, outbox)
            changed = True
    return changed


def drop_unused_regexes(group: ConsumerGroup, outbox: Outbox) -> bool:
    unused = sorted(group.regexes.keys() - _regexes_in_use(group))
    for regex in unused:
        group.compiled.pop(regex, None)
        write_regex(group, regex, None, outbox)
    return bool(unused)


def _regexes_in_use(group: ConsumerGroup) -> set[str]:
    return {member.regex for member in group.members.values() if member.regex}


def _match(group: ConsumerGroup, regex: str, before: Resolved | None) -> frozenset[str]:
    """Return the topics that an expression matches now, without those that the member whose
    heartbeat it is may not describe, as in Kafka."""
    names = group.image.topics
    known: frozenset[str] = frozenset()
    unknown: Iterable[str] = names
    # With rights, the topics of before are not all that matched.
    if before is not None and group.topics_seen is not None and group.may_describe is None:
        known = before.topics & names.keys()
        unknown = names.keys() - group.topics_seen.keys()
    try:
        if regex not in group.compiled:
            group.compiled[regex] = TopicRegex(regex)
        found = known | group.compiled[regex].among(unknown)
    except InvalidRegex:
        # It was valid when it was subscribed to. With many more topics, or in a log written by a
        # Kafka that accepts more, the group keeps the topics it has.
        found = before.topics & names.keys() if before is not None else frozenset()
    if group.may_describe is not None:
        found = frozenset(filter(group.may_describe, found))
    return found
