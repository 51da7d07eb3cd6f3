"""UserScramCredentialRecord, record type 11."""

from __future__ import annotations

from ottla.protocol.schema import Message, int8, int32, octets, string


class UserScramCredentialRecord(Message, api_key=11, versions=(0, 0), flexible=0):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = octets()
    stored_key: bytes = octets()
    server_key: bytes = octets()
    iterations: int = int32()
