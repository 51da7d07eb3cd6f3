"""Features of the cluster: abilities that all of its brokers must have before any may use them.

Each has a level. A cluster finalizes the one below as `level` when its first broker registers, as
a new cluster of Kafka 4.3 would; clients and other brokers learn it from ApiVersions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.metadata.records import METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL
from ottla.raft.settings import KRAFT_VERSION_FEATURE, SUPPORTED_KRAFT_VERSIONS


class Feature(NamedTuple):
    name: str
    lowest: int
    level: int
    """The highest level that Ottla supports, and the one a new cluster gets."""


TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
"""2: clients may count on a new epoch with each transaction, and on partitions being added to a
transaction by the first batch they get (KIP-890)."""

GROUP_VERSION_FEATURE: Final = "group.version"
"""1: groups of the new protocol (KIP-848). They are served in any case; Kafka's tools look here."""

ELR_VERSION_FEATURE: Final = "eligible.leader.replicas.version"
"""1: partitions remember who left their ISR with all that is committed, and may elect one of them
(KIP-966)."""

FEATURES: Final = (
    Feature(METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    Feature(TRANSACTION_VERSION_FEATURE, 0, 2),
    Feature(GROUP_VERSION_FEATURE, 0, 1),
    Feature(ELR_VERSION_FEATURE, 0, 1),
)

KRAFT_VERSION: Final = Feature(KRAFT_VERSION_FEATURE, *SUPPORTED_KRAFT_VERSIONS)
"""1: the voters of the quorum can change. It is set when folders are formatted, and lies in records
of the quorum, not among those of the controller."""
