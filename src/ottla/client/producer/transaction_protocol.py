"""Which of the two protocols of transactions is spoken, and in which versions of its requests.

Protocol 1: the producer adds partitions and groups to its transaction, and keeps its epoch.
Protocol 2 (KIP-890): brokers add them with what they get, and each transaction has an epoch of its
own, so that nothing which arrives late can slip into the next. A broker tells by the version of a
request which of them its client speaks.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.client.network.connection import Connection
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

RENEWING_FROM: Final = 3
"""The version of InitProducerId in which a producer can ask for its next epoch."""
TWO_PHASE_FROM: Final = 6
"""... and in which it can take part in a two-phase commit (KIP-939)."""
ADDING_MAX: Final = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
GROUP_MEMBERS_FROM: Final = 3
"""The version of TxnOffsetCommit that fences members which have lost their partitions."""

PROTOCOL_1: Final = 1
PROTOCOL_2: Final = 2
_NEWEST_OF_PROTOCOL_1: Final = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}


def protocol_of(connection: Connection) -> int:
    """The newest protocol that the cluster has agreed on and this broker serves."""
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
    """What was asked for by a setting is asked for by name: version 6 is not stable yet."""
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
