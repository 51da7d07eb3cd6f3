"""KRaftVersionRecord."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16


class KRaftVersionRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
    k_raft_version: int = int16()
