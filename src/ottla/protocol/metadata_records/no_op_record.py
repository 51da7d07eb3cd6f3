"""NoOpRecord, record type 20."""

from __future__ import annotations

from ottla.protocol.schema import Message


class NoOpRecord(Message, api_key=20, versions=(0, 0), flexible=0):
    pass
