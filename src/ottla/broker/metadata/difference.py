"""Compares two images when there are no records: a snapshot replaced a log."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from ottla.broker.metadata.delta import MetadataDelta, TopicChange
from ottla.broker.metadata.image import MetadataImage

K = TypeVar("K", bound=Hashable)


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    delta = MetadataDelta(
        configs=_differing(before.configs, after.configs),
        brokers=_differing(before.brokers, after.brokers),
        controllers=_differing(before.controllers, after.controllers),
        features=_differing(before.features, after.features),
        acls=_differing(before.acls, after.acls),
        tokens=_differing(before.delegation_tokens, after.delegation_tokens),
        security=_security(before) != _security(after),
    )
    for topic_id in _differing(before.topics_by_id, after.topics_by_id):
        old, new = before.topics_by_id.get(topic_id), after.topics_by_id.get(topic_id)
        if old is None and new is not None:
            delta.created[topic_id] = new
        elif old is not None and new is None:
            delta.deleted[topic_id] = old
        elif old is not None and new is not None:
            found = [i for i, p in new.partitions.items() if old.partitions.get(i) != p]
            delta.changed[topic_id] = TopicChange(old, new, tuple(found))
    return delta


def _differing(before: Mapping[K, Any], after: Mapping[K, Any]) -> set[K]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _security(image: MetadataImage) -> tuple[Mapping[Any, Any], ...]:
    return image.acls, image.scram_credentials, image.delegation_tokens, image.client_quotas
