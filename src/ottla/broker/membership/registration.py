"""The data that a broker sends to the controller when it registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.broker.metadata.features import FEATURES
from ottla.broker.metadata.image import Endpoint
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
"""Errors of a registration that a retry does not change."""


class Identity(NamedTuple):
    """The identity of a broker process, from its start to its end."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    """Random for each start of the process: distinguishes a restart from a repeated request."""
    endpoints: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[bytes]
    """The ids of the working log dirs."""
    previous_epoch: int = NOT_CLEAN
    """The broker epoch of the last run, if it was shut down properly and all log dirs agree."""


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
    """Return the listeners of a node; each request has a `message` class of its own for a
    listener."""
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
    """Return the features that a node supports; each request has a `message` class of its own for a
    feature."""
    return [
        message(
            name=feature.name,
            min_supported_version=feature.lowest,
            max_supported_version=feature.level,
        )
        for feature in FEATURES
    ]


def common_epoch(epochs: Sequence[int]) -> int:
    """Return the epoch in which all log dirs were closed, or NOT_CLEAN."""
    return epochs[0] if len(set(epochs)) == 1 else NOT_CLEAN
