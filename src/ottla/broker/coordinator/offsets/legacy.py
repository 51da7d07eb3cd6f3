"""Offsets as Kafka 0.8 wrote them."""

from __future__ import annotations

from ottla.protocol.coordinator_records.legacy_offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
)
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue


def modern(
    key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """Convert a record to the present format."""
    same = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return same, None
    return same, OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
