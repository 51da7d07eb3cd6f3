"""ExpireDelegationToken, API 40."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int32, int64, octets


class ExpireDelegationTokenRequest(Message, api_key=40, versions=(1, 2), flexible=2):
    hmac: bytes = octets()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, api_key=40, versions=(1, 2), flexible=2):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
