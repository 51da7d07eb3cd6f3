"""Planted: the leader acknowledges before its followers have the records."""

import pytest

from ottla.broker.replication.leader_state import LeaderState


def plant(patch: pytest.MonkeyPatch) -> None:
    def high_watermark(self: LeaderState, end_offset: int, *_: object) -> int:
        return end_offset

    patch.setattr(LeaderState, "high_watermark", high_watermark)
