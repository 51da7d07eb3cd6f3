"""The result of a pure decision: the records to commit, and then the response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.protocol.schema import Message

T = TypeVar("T")


class Decision(NamedTuple, Generic[T]):
    records: Sequence[Message]
    """Committed together or not at all; empty if there is nothing to change."""
    response: T
    """To be sent only after the records are committed."""
