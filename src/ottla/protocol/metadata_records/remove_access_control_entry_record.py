"""RemoveAccessControlEntryRecord, record type 19."""

from __future__ import annotations

from ottla.protocol.schema import Message, uuid


class RemoveAccessControlEntryRecord(Message, api_key=19, versions=(0, 0), flexible=0):
    id: bytes = uuid()
