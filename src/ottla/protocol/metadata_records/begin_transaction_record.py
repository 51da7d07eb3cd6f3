"""BeginTransactionRecord, record type 23."""

from __future__ import annotations

from ottla.protocol.schema import Message, string


class BeginTransactionRecord(Message, api_key=23, versions=(0, 0), flexible=0):
    name: str | None = string(nullable=True, default=None, tag=0)
