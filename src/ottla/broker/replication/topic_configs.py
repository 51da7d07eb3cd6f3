"""The configs of topics, from the broker's settings and the topics' overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.topic import TopicConfig

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.config.broker import BrokerConfig


class TopicConfigs:
    """All topics without overrides share one config."""

    def __init__(self, config: BrokerConfig) -> None:
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Apply changed broker settings, which are the defaults of topics."""
        self._config = config
        self._default = TopicConfig.build(config, {})

    def of(self, topic: str, image: MetadataImage) -> TopicConfig:
        overrides = image.topic_config(topic)
        return TopicConfig.build(self._config, overrides) if overrides else self._default
