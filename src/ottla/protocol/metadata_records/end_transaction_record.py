"""EndTransactionRecord, record type 24."""

from __future__ import annotations

from ottla.protocol.schema import Message


class EndTransactionRecord(Message, api_key=24, versions=(0, 0), flexible=0):
    pass
