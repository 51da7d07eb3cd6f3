"""Features of the cluster: functions that all its nodes must support before any may use them.

Each has a level. A cluster finalizes the `level` below when its first broker registers, as a new
cluster of Kafka 4.3 would; clients and other brokers learn it from ApiVersions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.broker.metadata.records import METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL
from ottla.broker.raft.settings import KRAFT_VERSION_FEATURE, SUPPORTED_KRAFT_VERSIONS


class Feature(NamedTuple):
    name: str
    lowest: int
    level: int
    """The highest level that Ottla supports, and the one a new cluster gets."""


TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
"""2: clients may rely on a new epoch with each transaction, and on the first batch to a partition
adding it to the transaction (KIP-890)."""

GROUP_VERSION_FEATURE: Final = "group.version"
"""1: groups of the new protocol (KIP-848). They are served in any case; Kafka's tools check this
feature."""

ELR_VERSION_FEATURE: Final = "eligible.leader.replicas.version"
"""1: partitions remember replicas that left their ISR with all committed records, and may elect one
of them (KIP-966)."""

FEATURES: Final = (
    Feature(METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    Feature(TRANSACTION_VERSION_FEATURE, 0, 2),
    Feature(GROUP_VERSION_FEATURE, 0, 1),
    Feature(ELR_VERSION_FEATURE, 0, 1),
)

UNSERVED: Final = ("share.version", "streams.version")
"""Features of Kafka 4.3 that Ottla does not have: it supports them at level 0 only."""

KRAFT_VERSION: Final = Feature(KRAFT_VERSION_FEATURE, *SUPPORTED_KRAFT_VERSIONS)
"""1: the voters of the quorum can change. It is set when log dirs are formatted, and is in records
of the quorum, not in those of the controller."""


class FeaturesUnsupported(Exception):
    """The cluster uses features that Ottla does not have; the message is for the user."""


def check_supported(levels: Mapping[str, int], where: str, way_on: str) -> None:
    """Raise `FeaturesUnsupported` if Ottla cannot be part of a cluster with these levels."""
    known = {feature.name: feature for feature in (*FEATURES, KRAFT_VERSION)}
    problems, options = [], []
    for name, level in sorted(levels.items()):
        feature = known.get(name, Feature(name, 0, 0))
        if not feature.lowest <= level <= feature.level:
            problems.append(f"{name}={level}")
            options.append(f"--feature {name}={feature.level}")
    if problems:
        raise FeaturesUnsupported(
            f"{where} has {', '.join(problems)}, which Ottla does not support. "
            f"{way_on} {' '.join(options)}"
        )
