"""ZkMigrationStateRecord, record type 21."""

from __future__ import annotations

from ottla.protocol.schema import Message, int8


class ZkMigrationStateRecord(Message, api_key=21, versions=(0, 0), flexible=0):
    zk_migration_state: int = int8()
