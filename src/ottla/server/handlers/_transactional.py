"""What the handlers of transactions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.handlers._coordinated import OverlappingReply


class ShapedReply(OverlappingReply):
    """A reply whose answer is brought into the shape that this client understands."""

    __slots__ = ("_shape",)

    def __init__(self, refuse: Callable[[KafkaError], Any], shape: Callable[[Any], Any]) -> None:
        super().__init__(refuse)
        self._shape = shape

    def resolve(self, response: Any) -> None:
        super().resolve(response if self.resolved else self._shape(response))


def understood(error: int, api_version: int, fenced_from: int) -> int:
    """PRODUCER_FENCED has a version in which it came; before, clients know another word for it."""
    if error == ErrorCode.PRODUCER_FENCED and api_version < fenced_from:
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    return int(error)
