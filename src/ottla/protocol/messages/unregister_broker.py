"""UnregisterBroker, API 64."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message, api_key=64, versions=(0, 0), flexible=0):
    broker_id: int = int32()


class UnregisterBrokerResponse(Message, api_key=64, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
