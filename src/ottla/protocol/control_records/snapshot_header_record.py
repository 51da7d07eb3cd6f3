"""SnapshotHeaderRecord."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int64


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
    last_contained_log_timestamp: int = int64()
