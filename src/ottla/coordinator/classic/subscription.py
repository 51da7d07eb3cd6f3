"""The topics inside the metadata of consumers, which is opaque to everything else here."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from ottla.protocol.codec import decoder
from ottla.protocol.embedded.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.errors import MalformedMessage

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION: Final = struct.Struct(">h")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that one of the members wants; None if one of them cannot be understood."""
    topics: set[str] = set()
    try:
        for subscription in metadata:
            topics.update(topics_of(subscription))
    except MalformedMessage:
        return None
    return frozenset(topics)


def topics_of(subscription: bytes) -> list[str]:
    """Every version begins as version 0 does, so this also reads versions yet to come."""
    if len(subscription) < _VERSION.size:
        raise MalformedMessage("a consumer's subscription is too short to hold its version")
    (version,) = _VERSION.unpack_from(subscription)
    if version < 0:
        raise MalformedMessage(f"a consumer's subscription has version {version}")
    found, _ = decoder(ConsumerProtocolSubscription, 0)(subscription, _VERSION.size)
    return found.topics
