"""PushTelemetry, API 72."""

from __future__ import annotations

from ottla.protocol.schema import Message, boolean, int8, int16, int32, octets, uuid


class PushTelemetryRequest(Message, api_key=72, versions=(0, 0), flexible=0):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = octets()


class PushTelemetryResponse(Message, api_key=72, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
