"""What a broker tells the controller about itself when it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.metadata.features import FEATURES
from ottla.metadata.image import Endpoint
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

T = TypeVar("T")

NOT_CLEAN: Final = -1

FATAL: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
    }
)
"""Refusals of a registration that asking again does not change."""


class Identity(NamedTuple):
    """One start of one broker."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    """Random for each start of the process: tells a restart from a repeated request."""
    endpoints: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[bytes]
    """The ids of the log folders that are in working order."""
    previous_epoch: int = NOT_CLEAN
    """The broker epoch of the last run, if it was shut down properly and all folders agree."""


def registration_request(
    identity: Identity, directories: Sequence[bytes]
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=identity.broker_id,
        cluster_id=identity.cluster_id,
        incarnation_id=identity.incarnation_id,
        listeners=listeners_of(Listener, identity.endpoints),
        features=supported_features(Feature),
        rack=identity.rack,
        log_dirs=list(directories),
        previous_broker_epoch=identity.previous_epoch,
    )


def listeners_of(message: Callable[..., T], endpoints: Sequence[Endpoint]) -> list[T]:
    """Where a node is found; each request has a `message` of its own for one listener."""
    return [
        message(
            name=endpoint.name,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    ]


def supported_features(message: Callable[..., T]) -> list[T]:
    """What a node can do, likewise."""
    return [
        message(
            name=feature.name,
            min_supported_version=feature.lowest,
            max_supported_version=feature.level,
        )
        for feature in FEATURES
    ]


def common_epoch(epochs: Sequence[int]) -> int:
    """The epoch that all log folders were closed in, or NOT_CLEAN."""
    return epochs[0] if len(set(epochs)) == 1 else NOT_CLEAN
