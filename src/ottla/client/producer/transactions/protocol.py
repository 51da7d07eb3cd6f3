"""Chooses the transaction protocol, and the versions of its requests.

Protocol 1: the producer adds partitions and groups to its transaction, and keeps its epoch.
Protocol 2 (KIP-890): brokers add them when records or offsets arrive, and each transaction has its
own epoch, so that late requests cannot become part of the next. The version of a request tells the
broker which protocol its client uses.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.network.connection import Connection
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

RENEWING_FROM: Final = 3
"""From this version of InitProducerId on, a producer can request its next epoch."""
TWO_PHASE_FROM: Final = 6
"""From this version of InitProducerId on, it can use two-phase commit (KIP-939)."""
ADDING_MAX: Final = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
GROUP_MEMBERS_FROM: Final = 3
"""From this version on, TxnOffsetCommit fences members that have lost their partitions."""

PROTOCOL_1: Final = 1
PROTOCOL_2: Final = 2
_NEWEST_OF_PROTOCOL_1: Final = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}


def protocol_of(connection: Connection) -> int:
    """Return the newest protocol that the cluster has finalized and this broker supports."""
    versions = connection.versions
    served = all(
        versions.supports(key, newest + 1) for key, newest in _NEWEST_OF_PROTOCOL_1.items()
    )
    agreed = versions.feature("transaction.version") >= PROTOCOL_2
    return PROTOCOL_2 if served and agreed else PROTOCOL_1


def produce_version_max(protocol: int) -> int | None:
    return _NEWEST_OF_PROTOCOL_1[ApiKey.PRODUCE] if protocol == PROTOCOL_1 else None


def version_of(connection: Connection, request: Any, protocol: int) -> int:
    version = connection.version_of(request)
    if protocol == PROTOCOL_1:
        version = min(version, _NEWEST_OF_PROTOCOL_1[request.API_KEY])
    return version


def init_version(connection: Connection, *, renewing: bool, two_phase: bool) -> int:
    """Return the version of InitProducerId. Two-phase commit needs version 6, which is unstable and
    used only if a setting asks for it."""
    from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

    if two_phase:
        if not connection.versions.supports(ApiKey.INIT_PRODUCER_ID, TWO_PHASE_FROM):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "the brokers do not offer two-phase commit (KIP-939): leave "
                "transaction_two_phase_commit_enable out, or set unstable.api.versions.enable and "
                "transaction.two.phase.commit.enable on the brokers",
            )
        return TWO_PHASE_FROM
    version = connection.version_of(InitProducerIdRequest)
    if renewing and version < RENEWING_FROM:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the brokers are too old (before 2.5) for a producer to go on after this",
        )
    return version
