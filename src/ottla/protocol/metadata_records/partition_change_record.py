"""PartitionChangeRecord, record type 5."""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int32, uuid


class PartitionChangeRecord(Message, api_key=5, versions=(0, 2), flexible=0):
    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable=True, default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: list[int] | None = array(int32, nullable=True, default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, nullable=True, default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, nullable=True, default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: list[bytes] | None = array(uuid, "1+", nullable=True, default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(
        int32, "2+", nullable=True, default=None, tag=6
    )
    last_known_elr: list[int] | None = array(int32, "2+", nullable=True, default=None, tag=7)
