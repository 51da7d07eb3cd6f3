"""TopicRecord, record type 2."""

from __future__ import annotations

from ottla.protocol.schema import Message, string, uuid


class TopicRecord(Message, api_key=2, versions=(0, 0), flexible=0):
    name: str = string()
    topic_id: bytes = uuid()
