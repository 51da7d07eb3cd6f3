"""ConfigRecord, record type 4."""

from __future__ import annotations

from ottla.protocol.schema import Message, int8, string


class ConfigRecord(Message, api_key=4, versions=(0, 0), flexible=0):
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)
