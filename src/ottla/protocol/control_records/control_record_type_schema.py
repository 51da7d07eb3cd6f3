"""ControlRecordTypeSchema."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16


class ControlRecordTypeSchema(Message, versions=(0, 0)):
    type: int = int16()
