"""ConsumerGroupTargetAssignmentMetadata, record type 6."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64, string


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions=(0, 0)):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions=(0, 0), flexible=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)
