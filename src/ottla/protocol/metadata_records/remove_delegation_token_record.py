"""RemoveDelegationTokenRecord, record type 26."""

from __future__ import annotations

from ottla.protocol.schema import Message, string


class RemoveDelegationTokenRecord(Message, api_key=26, versions=(0, 0), flexible=0):
    token_id: str = string()
