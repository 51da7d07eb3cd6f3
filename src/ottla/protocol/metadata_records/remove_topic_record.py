"""RemoveTopicRecord, record type 9."""

from __future__ import annotations

from ottla.protocol.schema import Message, uuid


class RemoveTopicRecord(Message, api_key=9, versions=(0, 0), flexible=0):
    topic_id: bytes = uuid()
