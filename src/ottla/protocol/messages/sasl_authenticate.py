"""SaslAuthenticate, API 36."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, int64, octets, string


class SaslAuthenticateRequest(Message, api_key=36, versions=(0, 2), flexible=2):
    auth_bytes: bytes = octets()


class SaslAuthenticateResponse(Message, api_key=36, versions=(0, 2), flexible=2):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    auth_bytes: bytes = octets()
    session_lifetime_ms: int = int64("1+", ignorable=True)
