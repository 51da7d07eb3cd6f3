"""The resources that configs belong to."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """The resource types of config records and config requests, by their number on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ConfigResource = tuple[int, str]
"""(resource type, resource name); the empty broker name is the default of the whole cluster."""

CLUSTER_DEFAULT: ConfigResource = (ResourceType.BROKER, "")
