"""DelegationTokenRecord, record type 10."""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int64, string


class DelegationTokenRecord(Message, api_key=10, versions=(0, 0), flexible=0):
    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()
