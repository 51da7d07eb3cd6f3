"""FeatureLevelRecord, record type 12."""

from __future__ import annotations

from ottla.protocol.schema import Message, int16, string


class FeatureLevelRecord(Message, api_key=12, versions=(0, 0), flexible=0):
    name: str = string()
    feature_level: int = int16()
