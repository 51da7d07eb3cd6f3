"""A quorum whose voters can change (KIP-853): which seeds have one, who votes first, and how the
folders of its nodes are formatted."""

from __future__ import annotations

import random
from dataclasses import replace

from ottla.metadata.features import FEATURES
from ottla.metadata.formatting import FirstVoter, write_first_features, write_first_voters
from ottla.protocol.uuids import random_uuid
from ottla.sim.cluster.shape import (
    CLUSTER_ID,
    CONTROLLER_PORT,
    METADATA_DIR,
    Layout,
    NodeShape,
    Shape,
)
from ottla.sim.runtime import SimRuntime
from ottla.storage.meta_properties import MetaProperties, write_meta_properties

STREAM = "voters"
"""Of chance: seeds without such a quorum play as if there were none."""
RATE = 0.45
"""Of the seeds; those with fewer controllers than make a majority interesting are not."""
CONTROLLERS_MIN = 3
AUTO_JOIN_RATE = 0.3
LISTENER = "CONTROLLER"


def with_voters(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """The same cluster, for some seeds, or as wanted, with voters that can change."""
    drawn = chance.random() < RATE
    controllers = [node.id for node in shape.controllers]
    if len(controllers) < CONTROLLERS_MIN or not (drawn if wanted is None else wanted):
        return shape
    count = chance.choice((1, len(controllers), len(controllers)))
    auto_join = str(chance.random() < AUTO_JOIN_RATE).lower()
    return replace(
        shape,
        first_voters=tuple(sorted(chance.sample(controllers, count))),
        settings={**shape.settings, "controller.quorum.auto.join.enable": auto_join},
    )


class MetadataFolders:
    """One on each node, with an id: a voter is known by both."""

    def __init__(self, shape: Layout, chance: random.Random) -> None:
        self._shape = shape
        self.ids = {node.id: random_uuid(chance) for node in shape.nodes}

    def format(self, runtime: SimRuntime, node: NodeShape) -> None:
        """As `ottla storage format` does with `--initial-controllers` (or `--standalone`, if that
        is one) on the first voters, with `--no-initial-controllers` on all others."""
        disk, now_ms = runtime.disk, runtime.clock.wall_ms()
        disk.make_dirs(METADATA_DIR)
        levels = {feature.name: feature.level for feature in FEATURES}
        write_first_features(disk, METADATA_DIR, levels, now_ms=now_ms)
        if node.id in self._shape.first_voters:
            voters = self._first_voters()
            write_first_voters(disk, METADATA_DIR, voters, listener=LISTENER, now_ms=now_ms)
        identity = MetaProperties(CLUSTER_ID, node.id, self.ids[node.id])
        write_meta_properties(disk, METADATA_DIR, identity)

    def _first_voters(self) -> list[FirstVoter]:
        return [
            FirstVoter(node.id, self.ids[node.id], node.host, CONTROLLER_PORT)
            for node in self._shape.controllers
            if node.id in self._shape.first_voters
        ]
