"""AlterClientQuotas, API 49."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class RequestEntryData(Struct):
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, api_key=49, versions=(0, 1), flexible=1):
    entries: list[RequestEntryData] = array(RequestEntryData)
    validate_only: bool = boolean()


class ResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, api_key=49, versions=(0, 1), flexible=1):
    throttle_time_ms: int = int32()
    entries: list[ResponseEntryData] = array(ResponseEntryData)
