"""AbortTransactionRecord, record type 25."""

from __future__ import annotations

from ottla.protocol.schema import Message, string


class AbortTransactionRecord(Message, api_key=25, versions=(0, 0), flexible=0):
    reason: str | None = string(nullable=True, default=None, tag=0)
