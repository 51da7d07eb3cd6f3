"""Refuses requests about ACLs: there is no authorizer yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.protocol.errors import ErrorCode

T = TypeVar("T")


def refusals(result: Callable[..., T], count: int) -> list[T]:
    """Return SECURITY_DISABLED, with Kafka's message, for each of `count` items."""
    refused = result(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    return [refused] * count
