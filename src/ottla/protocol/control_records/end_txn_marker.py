"""EndTxnMarker."""

from __future__ import annotations

from ottla.protocol.schema import Message, int32


class EndTxnMarker(Message, versions=(0, 0)):
    coordinator_epoch: int = int32()
