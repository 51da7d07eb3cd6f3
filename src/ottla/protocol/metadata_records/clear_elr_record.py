"""ClearElrRecord, record type 28."""

from __future__ import annotations

from ottla.protocol.schema import Message, string


class ClearElrRecord(Message, api_key=28, versions=(0, 0), flexible=0):
    topic_name: str = string()
