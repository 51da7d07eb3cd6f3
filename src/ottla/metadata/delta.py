"""What changed between two images: the message to everyone who acts on metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.image import TopicImage
from ottla.metadata.resources import ConfigResource, ResourceType


class TopicChange(NamedTuple):
    """A topic that was there before and after, with other partitions or partition states."""

    before: TopicImage
    after: TopicImage
    partitions: tuple[int, ...]
    """The partitions that are new or differ, in ascending order."""


@dataclass(slots=True)
class MetadataDelta:
    """Net changes only: a topic created and deleted by the same records appears nowhere.

    A topic that was deleted and created again under its name is in `deleted` under its old id and
    in `created` under its new one; act on deletions first.
    """

    deleted: dict[bytes, TopicImage] = field(default_factory=dict)
    created: dict[bytes, TopicImage] = field(default_factory=dict)
    changed: dict[bytes, TopicChange] = field(default_factory=dict)
    configs: set[ConfigResource] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    features: set[str] = field(default_factory=set)

    def topics_reconfigured(self) -> list[str]:
        """Topics whose overrides changed, deleted ones included, sorted."""
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
        )
