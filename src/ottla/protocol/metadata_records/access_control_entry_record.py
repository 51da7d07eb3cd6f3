"""AccessControlEntryRecord, record type 18."""

from __future__ import annotations

from ottla.protocol.schema import Message, int8, string, uuid


class AccessControlEntryRecord(Message, api_key=18, versions=(0, 0), flexible=0):
    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()
