"""LegacyOffsetCommit, record type 0."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64, string


class LegacyOffsetCommitKey(Message, api_key=0, versions=(0, 0)):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Message, api_key=0, versions=(0, 0)):
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()
