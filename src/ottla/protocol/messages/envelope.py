"""Envelope, API 58."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, octets


class EnvelopeRequest(Message, api_key=58, versions=(0, 0), flexible=0):
    request_data: bytes = octets()
    request_principal: bytes | None = octets(nullable=True)
    client_host_address: bytes = octets()


class EnvelopeResponse(Message, api_key=58, versions=(0, 0), flexible=0):
    response_data: bytes | None = octets(nullable=True, default=None)
    error_code: int = int16()
