"""RemoveUserScramCredentialRecord, record type 22."""

from __future__ import annotations

from ottla.protocol.schema import Message, int8, string


class RemoveUserScramCredentialRecord(Message, api_key=22, versions=(0, 0), flexible=0):
    name: str = string()
    mechanism: int = int8()
