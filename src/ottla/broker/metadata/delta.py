"""The difference between two images, for subscribers to metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.broker.metadata.image import TopicImage
from ottla.broker.metadata.resources import ConfigResource, ResourceType


class TopicChange(NamedTuple):
    """A topic that was there before and after, with other partitions or partition states."""

    before: TopicImage
    after: TopicImage
    partitions: tuple[int, ...]
    """The partitions that are new or differ, in ascending order."""


@dataclass(slots=True)
class MetadataDelta:
    """Net changes only: a topic created and deleted by the same records does not appear.

    A topic that was deleted and created again under its name is in `deleted` under its old id and
    in `created` under its new one; handle deletions first.
    """

    deleted: dict[bytes, TopicImage] = field(default_factory=dict)
    created: dict[bytes, TopicImage] = field(default_factory=dict)
    changed: dict[bytes, TopicChange] = field(default_factory=dict)
    configs: set[ConfigResource] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    features: set[str] = field(default_factory=set)
    acls: set[bytes] = field(default_factory=set)
    """The ids of ACLs that were added or removed."""
    tokens: set[str] = field(default_factory=set)
    """The ids of delegation tokens that were made, changed or removed."""
    security: bool = False
    """True if ACLs, SCRAM credentials, tokens or quotas changed. The maps that did are other
    objects in the new image."""

    def topics_reconfigured(self) -> list[str]:
        """Return the topics whose overrides changed, including deleted ones, sorted."""
        return sorted(name for kind, name in self.configs if kind == ResourceType.TOPIC)

    @property
    def brokers_reconfigured(self) -> bool:
        return any(kind == ResourceType.BROKER for kind, _ in self.configs)

    def __bool__(self) -> bool:
        return bool(
            self.deleted
            or self.created
            or self.changed
            or self.configs
            or self.brokers
            or self.controllers
            or self.features
            or self.security
        )
