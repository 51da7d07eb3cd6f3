"""OffsetCommit, record type 1."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64, string, uuid


class OffsetCommitKey(Message, api_key=1, versions=(0, 0)):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, api_key=1, versions=(0, 4), flexible=4):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)
