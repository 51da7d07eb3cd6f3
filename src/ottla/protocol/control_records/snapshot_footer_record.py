"""SnapshotFooterRecord."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16


class SnapshotFooterRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
