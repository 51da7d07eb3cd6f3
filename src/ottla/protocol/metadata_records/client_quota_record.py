"""ClientQuotaRecord, record type 14."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, boolean, float64, string


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ClientQuotaRecord(Message, api_key=14, versions=(0, 0), flexible=0):
    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()
