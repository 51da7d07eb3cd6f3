"""The metadata log dirs in a quorum whose voters can change: their directory ids and formatting. A
voter is a node id and a directory id: with another disk a node is another voter."""

from __future__ import annotations

import random

from ottla.broker.metadata.features import FEATURES
from ottla.broker.metadata.formatting import FirstVoter, write_first_features, write_first_voters
from ottla.broker.storage.dirs.meta_properties import MetaProperties, write_meta_properties
from ottla.protocol.uuids import random_uuid, to_text
from ottla.runtime.disk import Disk
from ottla.sim.cluster.shape import CLUSTER_ID, CONTROLLER_PORT, METADATA_DIR, Layout, NodeShape
from ottla.sim.runtime import SimRuntime

LISTENER = "CONTROLLER"


class MetadataFolders:
    def __init__(self, shape: Layout, chance: random.Random) -> None:
        self._shape = shape
        self._chance = chance
        self._ids = {node.id: random_uuid(chance) for node in shape.nodes}
        self.replacing: int | None = None
        """The node whose disk is lost, or soon will be. Until the new disk has replaced the old one
        as a voter, nobody removes another voter, and no other disk is lost."""
        self.is_lost = False
        """The old disk of that node is gone already."""
        self.unsure_since_s: float | None = None
        """When a removal was requested that may still be on its way to the leader."""

    def id_of(self, node_id: int) -> str:
        """Return the directory id as `ottla storage info` shows it."""
        return to_text(self._ids[node_id])

    def format(self, runtime: SimRuntime, node: NodeShape) -> None:
        """Format as `ottla storage format` does: on the first voters with `--initial-controllers`
        (or `--standalone`, if there is one), on all others with `--no-initial-controllers`."""
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
        """Replace the disk with one that is formatted with `--no-initial-controllers`."""
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
