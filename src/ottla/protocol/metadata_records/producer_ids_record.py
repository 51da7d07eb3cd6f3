"""ProducerIdsRecord, record type 15."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32, int64


class ProducerIdsRecord(Message, api_key=15, versions=(0, 0), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()
