"""The folders of the metadata log in a quorum whose voters can change: their ids, and how they are
formatted. A voter is a node and the id of its folder: with another disk it is another voter."""

from __future__ import annotations

import random

from ottla.metadata.features import FEATURES
from ottla.metadata.formatting import FirstVoter, write_first_features, write_first_voters
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.disk import Disk
from ottla.sim.cluster.shape import CLUSTER_ID, CONTROLLER_PORT, METADATA_DIR, Layout, NodeShape
from ottla.sim.runtime import SimRuntime
from ottla.storage.meta_properties import MetaProperties, write_meta_properties

LISTENER = "CONTROLLER"


class MetadataFolders:
    def __init__(self, shape: Layout, chance: random.Random) -> None:
        self._shape = shape
        self._chance = chance
        self._ids = {node.id: random_uuid(chance) for node in shape.nodes}
        self.replacing: int | None = None
        """The node whose disk is lost, or soon will be: until the new one has the vote of the old
        one, nobody asks for the removal of another voter, and no other disk is lost."""
        self.is_lost = False
        """The old disk of that node is gone already."""
        self.unsure_since_s: float | None = None
        """When a removal was asked for that may still be on its way to the leader."""

    def id_of(self, node_id: int) -> str:
        """As `ottla storage info` shows it."""
        return to_text(self._ids[node_id])

    def format(self, runtime: SimRuntime, node: NodeShape) -> None:
        """As `ottla storage format` does with `--initial-controllers` (or `--standalone`, if that
        is one) on the first voters, with `--no-initial-controllers` on all others."""
        if node.id in self._shape.first_voters:
            runtime.disk.make_dirs(METADATA_DIR)
            write_first_voters(
                runtime.disk,
                METADATA_DIR,
                self._first_voters(),
                listener=LISTENER,
                now_ms=runtime.clock.wall_ms(),
            )
        self._identify(runtime.disk, node, runtime.clock.wall_ms())

    def replace(self, runtime: SimRuntime, node: NodeShape) -> None:
        """Another disk, with nothing on it but what `--no-initial-controllers` leaves there."""
        self.is_lost = True
        runtime.disk.remove_tree(METADATA_DIR)
        self._ids[node.id] = random_uuid(self._chance)
        self._identify(runtime.disk, node, runtime.clock.wall_ms())

    def _identify(self, disk: Disk, node: NodeShape, now_ms: int) -> None:
        disk.make_dirs(METADATA_DIR)
        levels = {feature.name: feature.level for feature in FEATURES}
        write_first_features(disk, METADATA_DIR, levels, now_ms=now_ms)
        identity = MetaProperties(CLUSTER_ID, node.id, self._ids[node.id])
        write_meta_properties(disk, METADATA_DIR, identity)

    def _first_voters(self) -> list[FirstVoter]:
        return [
            FirstVoter(node.id, self._ids[node.id], node.host, CONTROLLER_PORT)
            for node in self._shape.controllers
            if node.id in self._shape.first_voters
        ]
