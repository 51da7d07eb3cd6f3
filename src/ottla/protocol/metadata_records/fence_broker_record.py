"""FenceBrokerRecord, record type 7."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64


class FenceBrokerRecord(Message, api_key=7, versions=(0, 0), flexible=0):
    id: int = int32()
    epoch: int = int64()
