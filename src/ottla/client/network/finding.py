"""Finds the coordinator of a group or a transactional id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ottla.client.network.metadata import Broker
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError

BATCHED_FROM = 4


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


async def find_coordinators(
    connection: Connection, kind: CoordinatorType, keys: Sequence[str]
) -> dict[str, Broker | KafkaError]:
    """Return the coordinator of each key, or an error. Any broker may be asked."""
    from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

    version = connection.version_of(FindCoordinatorRequest)
    if version >= BATCHED_FROM:
        request = FindCoordinatorRequest(key_type=int(kind), coordinator_keys=list(keys))
        response = await connection.request(request, version=version)
        found = {one.key: _place(one) for one in response.coordinators}
        return {key: found.get(key, _NOT_SAID) for key in keys}
    if version == 0 and kind is not CoordinatorType.GROUP:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "this broker is too old to have transactions"
        )
    answers = await asyncio.gather(
        *(connection.request(_single(kind, key, version), version=version) for key in keys)
    )
    return {key: _place(found) for key, found in zip(keys, answers, strict=True)}


_NOT_SAID = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker did not say where")


def _single(kind: CoordinatorType, key: str, version: int) -> Any:
    from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

    if version == 0:
        return FindCoordinatorRequest(key=key)
    return FindCoordinatorRequest(key=key, key_type=int(kind))


def _place(found: Any) -> Broker | KafkaError:
    if found.error_code:
        return KafkaError(ErrorCode.of(found.error_code), found.error_message)
    return Broker(found.node_id, found.host, found.port)
