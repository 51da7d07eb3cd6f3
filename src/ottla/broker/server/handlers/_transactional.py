"""Shared by the handlers of transactions."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


def understood(error: int, api_version: int, fenced_from: int) -> int:
    """Return the error code that the client knows: before `fenced_from`, PRODUCER_FENCED is
    INVALID_PRODUCER_EPOCH."""
    if error == ErrorCode.PRODUCER_FENCED and api_version < fenced_from:
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    return int(error)
