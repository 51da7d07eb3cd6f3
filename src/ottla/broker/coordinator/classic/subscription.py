"""The topics inside consumers' metadata, which is opaque to the other modules."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.consumer_protocol import read_topics
from ottla.protocol.errors import MalformedMessage


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics that members subscribe to; None if the metadata of one is malformed."""
    topics: set[str] = set()
    try:
        for subscription in metadata:
            topics.update(read_topics(subscription))
    except MalformedMessage:
        return None
    return frozenset(topics)
