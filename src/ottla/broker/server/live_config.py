"""The settings in force on a node: those of its file, and the dynamic ones in the metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.metadata.resources import CLUSTER_DEFAULT, ResourceType
from ottla.logs import get_logger

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.config.broker import BrokerConfig

log = get_logger("ottla.node")


class LiveConfig:
    """Read `current` whenever a setting is needed: it is replaced when the metadata changes."""

    __slots__ = ("_checks", "_from_file", "_listeners", "current", "fetch_bytes_max")

    def __init__(self, from_file: BrokerConfig) -> None:
        self._from_file = from_file
        self._listeners: list[Callable[[BrokerConfig, MetadataImage], object]] = []
        self._checks: list[Callable[[BrokerConfig], object]] = []
        self.current = from_file
        self.fetch_bytes_max: int = from_file["fetch.max.bytes"]
        """`fetch.max.bytes`, which every fetch needs."""

    def on_change(self, listener: Callable[[BrokerConfig, MetadataImage], object]) -> None:
        """Call `listener` with the settings, and the metadata that they come from, when they
        change."""
        self._listeners.append(listener)

    def check_with(self, check: Callable[[BrokerConfig], object]) -> None:
        """Call `check` before settings of this broker are stored; it raises `ConfigError` if they
        cannot be used here."""
        self._checks.append(check)

    def check(self, config: BrokerConfig) -> None:
        """Raise `ConfigError` if a part of this node could not use these settings."""
        for check in self._checks:
            check(config)

    def take(self, image: MetadataImage) -> None:
        """Apply the dynamic settings of this metadata."""
        own = (ResourceType.BROKER, str(self._from_file.node_id))
        config = self._from_file.with_dynamic(image.config(CLUSTER_DEFAULT), image.config(own))
        for problem in config.ignored:
            log.warning("a stored setting cannot be used", problem=str(problem))
        self.current = config
        self.fetch_bytes_max = config["fetch.max.bytes"]
        for listener in self._listeners:
            listener(config, image)
