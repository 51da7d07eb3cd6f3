"""Unclean leader election by topic: the topic's own setting, else the broker's."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.controller.elections import Election
from ottla.broker.metadata.image import MetadataImage
from ottla.config.broker import BrokerConfig

UNCLEAN_KEY = "unclean.leader.election.enable"

ElectionOf = Callable[[str], Election]
"""Topic name -> the election to hold when its leader is lost."""


def elections_by_topic(image: MetadataImage, config: BrokerConfig) -> ElectionOf:
    default = config[UNCLEAN_KEY]

    def election_of(topic: str) -> Election:
        own = image.topic_config(topic).get(UNCLEAN_KEY)
        allowed = default if own is None else own.strip().lower() == "true"
        return Election.UNCLEAN if allowed else Election.ONLINE

    return election_of
