"""Invariants that hold at every moment, whatever fails; checked many times a second.

- in each epoch of a partition, and of the quorum, one node leads;
- for each partition epoch, all nodes have the same partition state; partition epochs only grow;
- the ISR and the ELR are subsets of the replicas and disjoint; the leader is in the ISR;
- while fewer than `min.insync.replicas` are in sync, a leader's high watermark does not move;
- the high watermark of a leader does not go back, nor beyond the end of its log;
- records below the high watermark are the same on all replicas, and the leader has all of them;
- the same holds for the metadata; consecutive committed voter sets differ by one voter.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.node import Node
from ottla.sim.cluster.committed import CommittedLog
from ottla.sim.cluster.fleet import Fleet
from ottla.sim.cluster.voters.sets import VoterSets
from ottla.sim.history import Violation

Key = tuple[bytes, int]

NOBODY = -1


class Invariants:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._leaders: dict[tuple[Key, int], int] = {}
        self._states: dict[tuple[Key, int], PartitionImage] = {}
        self._quorum_leaders: dict[int, int] = {}
        self._images: dict[str, MetadataImage] = {}
        self._topics_seen: dict[int, TopicImage] = {}
        """By id(), and kept alive by it: an image shares its unchanged parts with the next."""
        self._high_watermarks: dict[tuple[str, Key, int], int] = {}
        self._lacking: dict[tuple[str, Key], tuple[int, int]] = {}
        """Leaders with too few replicas in sync: the epoch of that ISR, and the high watermark."""
        self._logs: dict[Key, CommittedLog] = {}
        self._seen: dict[tuple[str, Key], tuple[object, ...]] = {}
        """The state of each replica at the last look: most have not changed since."""
        self._metadata = CommittedLog("__cluster_metadata-0")
        self._leading: set[tuple[str, int]] = set()
        """Leaders of the quorum that have been checked, by process and epoch."""
        self.voter_sets = VoterSets()
        self.looks = 0

    def look(self) -> None:
        self.looks += 1
        for node_id, node in self._fleet.running():
            who = str(self._process(node_id))
            if node.has_metadata:
                self._look_at_quorum(who, node)
                self._look_at_image(who, node.metadata.image)
            if node.has_broker:
                for partition in node.replicas.partitions():
                    self._look_at_partition(who, node_id, partition)

    def _process(self, node_id: int) -> object:
        runtime = self._fleet.world.machine(self._fleet.hosts[node_id]).runtime
        assert runtime is not None
        return runtime.process

    # Metadata.

    def _look_at_quorum(self, who: str, node: Node) -> None:
        quorum = node.metadata.quorum
        leader = quorum.leader
        if leader.leader_id != NOBODY:
            known = self._quorum_leaders.setdefault(leader.epoch, leader.leader_id)
            if known != leader.leader_id:
                raise Violation(
                    f"{who} follows {leader.leader_id} in epoch {leader.epoch} of the quorum, "
                    f"others {known}"
                )
        if quorum.is_leader and (who, quorum.epoch) not in self._leading:
            self._leading.add((who, quorum.epoch))
            if quorum.epoch >= max(self._quorum_leaders, default=0):
                self._metadata.complete(who, quorum.log.storage)
        self._metadata.committed(who, quorum.log.storage, quorum.high_watermark)
        self.voter_sets.look(who, quorum)

    def _look_at_image(self, who: str, image: MetadataImage) -> None:
        before = self._images.get(who)
        if before is image:
            return
        if before is not None and image.offset < before.offset:
            raise Violation(f"{who}: the metadata went back from {before.offset} to {image.offset}")
        self._images[who] = image
        for topic in image.topics.values():
            if id(topic) not in self._topics_seen:
                self._topics_seen[id(topic)] = topic
                for part in topic.partitions.values():
                    self._look_at_assignment(who, topic, part)

    def _look_at_assignment(self, who: str, topic: TopicImage, part: PartitionImage) -> None:
        key, where = (topic.id, part.index), f"{topic.name}-{part.index} at {who}"
        known = self._states.setdefault((key, part.partition_epoch), part)
        if known._replace(directories=()) != part._replace(directories=()):
            raise Violation(f"{where}: {part}, where others know {known}")
        if not set(part.isr) <= set(part.replicas):
            raise Violation(f"{where}: the ISR is not a part of the replicas: {part}")
        elr = set(part.eligible_leader_replicas)
        if not elr <= set(part.replicas) or elr & set(part.isr):
            raise Violation(f"{where}: the ELR is not a part of the replicas out of sync: {part}")
        if part.leader != NOBODY and part.leader not in part.isr:
            raise Violation(f"{where}: the leader is not in the ISR: {part}")
        if part.leader != NOBODY:
            self._one_leader(where, key, part.leader_epoch, part.leader)

    def _one_leader(self, where: str, key: Key, epoch: int, leader: int) -> None:
        known = self._leaders.setdefault((key, epoch), leader)
        if known != leader:
            raise Violation(f"{where}: {leader} leads in epoch {epoch}, where {known} did")

    # Records.

    def _look_at_partition(self, who: str, node_id: int, partition: Any) -> None:
        log = partition.log
        if log is None or partition.error is not None:
            return
        key = (partition.topic_id, partition.index)
        committed = self._logs.get(key)
        if committed is None:
            committed = self._logs[key] = CommittedLog(str(partition))
        is_leader, epoch = partition.is_leader, partition.leader_epoch
        high_watermark = partition.high_watermark
        ends = (log.log_start_offset, log.end_offset, log.generation, committed.end)
        state = (is_leader, epoch, high_watermark, *ends)
        if self._seen.get((who, key)) != state:
            self._check_replica(who, node_id, partition, committed)
            self._seen[who, key] = (is_leader, epoch, high_watermark, *ends[:3], committed.end)

    def _check_replica(
        self, who: str, node_id: int, partition: Any, committed: CommittedLog
    ) -> None:
        key, log = (partition.topic_id, partition.index), partition.log
        if not partition.is_leader:
            committed.agree(who, log, min(partition.high_watermark, committed.end))
            return
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        self._one_leader(f"{partition} at {who}", key, epoch, node_id)
        if high_watermark > log.end_offset:
            raise Violation(
                f"{partition} at {who}: {high_watermark=} is beyond the end, {log.end_offset}"
            )
        before = self._high_watermarks.get((who, key, epoch))
        if before is None:
            self._new_leader(who, key, epoch, committed, log)
        elif high_watermark < before:
            raise Violation(f"{partition} at {who}: {high_watermark=} after {before}")
        self._high_watermarks[who, key, epoch] = high_watermark
        self._look_at_commitment(who, key, partition)
        committed.committed(who, log, high_watermark)

    def _look_at_commitment(self, who: str, key: Key, partition: Any) -> None:
        leading = partition.leading
        before = self._lacking.pop((who, key), None)
        if leading is None or not leading.lacks_replicas(partition.min_insync_replicas):
            return
        now = (leading.partition_epoch, partition.high_watermark)
        if before is not None and before[0] == now[0] and before[1] < now[1]:
            raise Violation(f"{partition} at {who}: committed with {leading.isr} in sync")
        self._lacking[who, key] = now

    def _new_leader(
        self, who: str, key: Key, epoch: int, committed: CommittedLog, log: Any
    ) -> None:
        """Check a new leader's log. A former leader that does not know its successor is skipped."""
        if epoch >= max((e for k, e in self._leaders if k == key), default=epoch):
            committed.complete(who, log)
