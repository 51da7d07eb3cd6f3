"""Delays work so that the disk is used no faster than allowed."""

from __future__ import annotations

BURST_S = 0.3
"""Unused time is credited for at most this long, so that a pause of the work can be made up for."""


class Pacer:
    __slots__ = ("_bytes_per_second", "_paid_until_s")

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = max(bytes_per_second, 1.0)
        self._paid_until_s: float | None = None

    def delay_s(self, byte_count: int, now_s: float) -> float:
        """Return how long to pause, given that `byte_count` bytes were read or written by
        `now_s`."""
        begun_s = now_s if self._paid_until_s is None else max(self._paid_until_s, now_s - BURST_S)
        self._paid_until_s = begun_s + byte_count / self._bytes_per_second
        return max(0.0, self._paid_until_s - now_s)
