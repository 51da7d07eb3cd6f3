"""UnregisterBrokerRecord, record type 1."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64


class UnregisterBrokerRecord(Message, api_key=1, versions=(0, 0), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64()
