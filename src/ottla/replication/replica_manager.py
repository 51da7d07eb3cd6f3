"""All replicas on this broker: kept in step with the metadata, found by name or id, flushed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.config.topic import TopicConfig
from ottla.logs import get_logger
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.replication.cluster_view import ClusterView
from ottla.replication.dir_moves import DirMoves
from ottla.replication.fetchers import Fetchers
from ottla.replication.haste import Haste
from ottla.replication.isr_changes import Ask, IsrChanges
from ottla.replication.isr_watch import IsrWatch
from ottla.replication.partition import Partition
from ottla.replication.replica_selector import RACK_AWARE
from ottla.replication.throttle import Throttle
from ottla.replication.topic import HostedTopic
from ottla.storage.errors import LogDirFailure

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.peers.peers import Peers
    from ottla.runtime.runtime import Runtime
    from ottla.storage.log import Log
    from ottla.storage.log_manager import LogManager

log = get_logger("ottla.replication")

LOGS_CREATED_PER_TURN: Final = 4
"""So many folders are made in one turn of the loop; each takes about half a millisecond."""

NAMES_TOLD_MAX: Final = 5


class ReplicaManager:
    def __init__(
        self, runtime: Runtime, config: BrokerConfig, log_manager: LogManager, node_id: int
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._log_manager = log_manager
        self._node_id = node_id
        now = runtime.clock.now
        self.view = ClusterView(node_id, runtime.clock, config["replica.lag.time.max.ms"])
        self.haste = Haste(now)
        self.leader_throttle = Throttle(node_id, now)
        self.follower_throttle = Throttle(node_id, now)
        for throttle in (self.leader_throttle, self.follower_throttle):
            throttle.measure(
                config["replication.quota.window.num"],
                config["replication.quota.window.size.seconds"],
            )
        self._fetchers: Fetchers | None = None
        self._isr_changes: IsrChanges | None = None
        self._isr_watch = IsrWatch(runtime, self.view, self.partitions)
        self.moves = DirMoves(runtime, config, log_manager, node_id)
        self._default_config = TopicConfig.build(config, {})
        self._to_create: dict[Partition, None] = {}
        self._anew: set[Partition] = set()
        """Of these the metadata still names a folder that is gone."""
        self._revived: list[Partition] = []
        """What of these has not been told yet."""
        self._starting = False
        self._placed: dict[tuple[bytes, int], bytes] = {}
        self.report_folders: Callable[[dict[tuple[bytes, int], bytes]], object] | None = None
        """Told in which folder new partitions lie, where there is more than one to choose from: the
        metadata then knows which of them a failed disk takes along."""
        self.selects_by_rack = False
        """Whether consumers are sent to replicas in their rack (`replica.selector.class`)."""
        self.topics: dict[str, HostedTopic] = {}
        self.topics_by_id: dict[bytes, HostedTopic] = {}
        self._limit()

    def join(self, peers: Peers, ask: Ask, broker_epoch: Callable[[], int]) -> None:
        """There are other brokers: follow leaders among them, and ask the controller about ISRs.

        Before this, a partition that is led elsewhere only waits. `broker_epoch` is that of this
        broker's registration, as of now.
        """
        self.view.broker_epoch = broker_epoch
        self._isr_changes = IsrChanges(self._runtime, self.view, ask)
        self.view.propose = self._isr_changes.submit
        self._fetchers = Fetchers(
            self._runtime,
            self.view,
            peers,
            self._config,
            self.follower_throttle,
            self._log_failed,
        )
        for partition in self.partitions():
            self._follow(partition)
        self._isr_watch.start()

    def close(self) -> None:
        """Follow nobody any more. To be called before the logs are closed."""
        self.moves.close()
        self._isr_watch.stop()
        if self._fetchers is not None:
            self._fetchers.close()
        if self._isr_changes is not None:
            self._isr_changes.close()

    # --- lookup ---------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        hosted = self.topics.get(topic)
        partition = None if hosted is None else hosted.partitions.get(index)
        if partition is None:
            raise self.not_here(None if hosted is None else hosted.id, index)
        return partition

    def not_here(self, topic_id: bytes | None, index: int) -> KafkaError:
        """Why there is no such partition on this broker: it is elsewhere, or nowhere."""
        topic = None if topic_id is None else self.view.image.topics_by_id.get(topic_id)
        if topic is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        if index in topic.partitions:
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"this broker has no replica of {topic.name}-{index}",
            )
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {index}"
        )

    def led_partition(self, topic: str, index: int) -> Partition:
        """One that this broker leads now."""
        partition = self.partition(topic, index)
        partition.check_leading()
        return partition

    def partitions(self) -> Iterable[Partition]:
        for hosted in self.topics.values():
            yield from hosted.partitions.values()

    def noted(self, error: KafkaError) -> KafkaError:
        """The same error, after a disk failure it tells of has been acted on."""
        if isinstance(error, LogDirFailure):
            self._log_manager.fail_dir(error.directory, error.cause)
        return error

    # --- following the metadata -----------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Host everything that is assigned to this broker, on the logs that were found on disk."""
        self._starting = True
        self.view.image = image
        for topic in image.topics.values():
            self._host(topic, image)
        self._starting = False
        absent = [partition for partition in self.partitions() if partition.error is not None]
        if absent:
            log.error(
                "partitions are offline: the data folder that holds them is not here. Mount the "
                "disk, or put the folder back into log.dirs, and start again",
                **_counted(absent),
            )
        bare = [partition for partition in self._to_create if partition not in self._anew]
        if bare:
            log.warning("partitions have no folder; empty ones are made", **_counted(bare))
        self._tell_revived()
        self._create_logs_soon()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A metadata change has been committed."""
        self.view.image = image
        for topic in delta.deleted.values():
            self._drop(topic)
        for topic in delta.created.values():
            self._host(topic, image)
        for change in delta.changed.values():
            hosted = self.topics_by_id.get(change.after.id)
            if hosted is None:
                self._host(change.after, image)
                continue
            for index in change.partitions:
                self._place(hosted, change.after.partitions[index])
        for name in delta.topics_reconfigured():
            if name in self.topics:
                self._configure(self.topics[name], image)
        if delta.brokers:
            self._brokers_changed(image)
        self._tell_revived()
        self._create_logs_soon()

    def _brokers_changed(self, image: MetadataImage) -> None:
        if self._fetchers is not None:
            self._fetchers.forget_brokers(image.brokers.__contains__)
        self._isr_watch.review()

    def configure_broker(self, config: BrokerConfig, image: MetadataImage) -> None:
        """The broker's own settings changed, and with them the defaults of its topics."""
        self._config = config
        self._default_config = TopicConfig.build(config, {})
        self._limit()
        self.moves.configure(config)
        if self._fetchers is not None:
            self._fetchers.configure(config)
        for hosted in self.topics.values():
            self._configure(hosted, image)

    def _limit(self) -> None:
        config = self._config
        self.view.lag_max_ms = config["replica.lag.time.max.ms"]
        self.selects_by_rack = config["replica.selector.class"] == RACK_AWARE
        self.leader_throttle.limit(config["leader.replication.throttled.rate"])
        self.follower_throttle.limit(config["follower.replication.throttled.rate"])

    def topic_config(self, name: str, image: MetadataImage) -> TopicConfig:
        overrides = image.topic_config(name)
        return TopicConfig.build(self._config, overrides) if overrides else self._default_config

    def _configure(self, hosted: HostedTopic, image: MetadataImage) -> None:
        hosted.configure(self.topic_config(hosted.name, image))
        self._cover(hosted)

    def _cover(self, hosted: HostedTopic) -> None:
        config = hosted.config
        self.leader_throttle.cover(hosted.name, config.leader_replication_throttled_replicas)
        self.follower_throttle.cover(hosted.name, config.follower_replication_throttled_replicas)

    def _host(self, topic: TopicImage, image: MetadataImage) -> None:
        hosted = HostedTopic(topic.name, topic.id, self.topic_config(topic.name, image))
        self._cover(hosted)
        self.topics[topic.name] = self.topics_by_id[topic.id] = hosted
        for partition in topic.partitions.values():
            self._place(hosted, partition)

    def _place(self, hosted: HostedTopic, assigned: PartitionImage) -> None:
        """Make the partition here what the metadata says it is."""
        partition = hosted.partitions.get(assigned.index)
        if self._node_id not in assigned.replicas:
            if partition is not None:
                self._move_away(hosted, partition)
            return
        if partition is None:
            partition = Partition(
                hosted.name,
                hosted.id,
                assigned.index,
                self._create_log,
                self._flush_soon,
                self.view,
            )
            hosted.partitions[assigned.index] = partition
            self._find_log(partition, assigned)
        elif partition.error is not None and partition.log is None:
            self._begin_anew(partition, assigned)
        hosted.configure_partition(partition)
        if assigned.leader == self._node_id:
            self._lead(partition, assigned)
        elif partition.follow(assigned):
            self._follow(partition)

    def _lead(self, partition: Partition, assigned: PartitionImage) -> None:
        if self._fetchers is not None:
            self._fetchers.leave(partition)
        if partition.lead(assigned) and partition.leading is not None:
            self.haste.elected(partition.leading.followers)

    def _follow(self, partition: Partition) -> None:
        """Copy it from its leader, as soon as it has a log to copy to."""
        if self._fetchers is None or partition.is_leader or partition.error is not None:
            return
        if partition.log is not None:
            self._fetchers.follow(partition)

    def _move_away(self, hosted: HostedTopic, partition: Partition) -> None:
        """Its replica here is no longer wanted: others have it."""
        del hosted.partitions[partition.index]
        self._discard(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _discard(self, partition: Partition, error: ErrorCode) -> None:
        self._to_create.pop(partition, None)
        self._anew.discard(partition)
        if self._fetchers is not None:
            self._fetchers.leave(partition)
        partition.set_error(error)
        self.moves.call_off(partition)
        if partition.log is not None:
            self._log_manager.delete(partition.topic, partition.index)

    def _find_log(self, partition: Partition, assigned: PartitionImage) -> None:
        found = self._log_manager.get(partition.topic, partition.index)
        if found is not None:
            # What one replica alone has is committed; where there are more, only they together
            # know, and until they have met nothing beyond the checkpoint is.
            mark = None
            if len(assigned.replicas) > 1:
                marks = self._log_manager.high_watermarks_at_start
                mark = marks.get((partition.topic, partition.index), 0)
            partition.attach(found, mark)
            self.moves.resume(partition)
        elif self._may_be_offline(assigned.directory_of(self._node_id)):
            partition.set_error(ErrorCode.KAFKA_STORAGE_ERROR)
            self._begin_anew(partition, assigned)
        else:
            self._to_create[partition] = None

    def _may_be_offline(self, directory: bytes) -> bool:
        """Whether the log may exist on a disk that does not work. It must not be begun anew then:
        what was acknowledged would be gone from view, and the partition there twice in the end."""
        manager = self._log_manager
        if self._starting and directory == UNASSIGNED_DIRECTORY:
            return not all(log_dir.online for log_dir in manager.dirs)
        if self._starting and directory not in (*manager.directory_ids(), MIGRATING_DIRECTORY):
            return True  # a disk that is not mounted: its folder was found empty, or made anew
        return manager.is_offline(directory)

    def _begin_anew(self, partition: Partition, assigned: PartitionImage) -> None:
        """Its disk is gone for good, and another one in its place: copy it from the others. Only
        once the controller has taken this replica out of ISR and ELR, for as long as it counts on
        what was here nobody may find it empty."""
        others_have_it = assigned.leader not in (NO_LEADER, self._node_id)
        counted_on = (*assigned.isr, *assigned.eligible_leader_replicas)
        if not others_have_it or self._node_id in counted_on:
            return
        if partition.error == ErrorCode.KAFKA_STORAGE_ERROR and all(
            log_dir.online for log_dir in self._log_manager.dirs
        ):
            partition.error = None
            self._anew.add(partition)
            self._revived.append(partition)
            self._to_create[partition] = None

    def _tell_revived(self) -> None:
        """In one line: a disk takes all of its partitions along at once."""
        if self._revived:
            log.warning("replicas whose disk is gone are copied anew", **_counted(self._revived))
            self._revived.clear()

    def _drop(self, topic: TopicImage) -> None:
        hosted = self.topics_by_id.pop(topic.id, None)
        if hosted is None:
            return
        if self.topics.get(topic.name) is hosted:
            del self.topics[topic.name]
            for throttle in (self.leader_throttle, self.follower_throttle):
                throttle.forget(topic.name)
        for partition in hosted.partitions.values():
            self._discard(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- folders --------------------------------------------------------------------------------

    def move(self, topic: str, index: int, path: str) -> None:
        """Move a replica into another data folder of this broker, in the background. One that is
        not here yet will be made there: REPLICA_NOT_AVAILABLE tells that there was none to move."""
        target = self._log_manager.target_dir(path)
        try:
            partition = self.partition(topic, index)
        except KafkaError as error:
            self._log_manager.futures.prefer(topic, index, target)
            if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, error.message) from error
            raise
        if partition.log is None and partition.error is None:
            self._log_manager.futures.prefer(topic, index, target)
            partition.usable_log()
            self._follow(partition)
        self.moves.request(partition, target)

    def _create_log(self, partition: Partition) -> Log:
        self._to_create.pop(partition, None)
        hosted = self.topics_by_id[partition.topic_id]
        created = self._log_manager.create(
            partition.topic, partition.index, partition.topic_id, hosted.config
        )
        folder = self._log_manager.dir_of(created)
        begun_anew = partition in self._anew
        self._anew.discard(partition)
        if folder is not None and (begun_anew or len(self._log_manager.dirs) > 1):
            if not self._placed:
                self._runtime.call_soon(self._report_placed)
            self._placed[partition.topic_id, partition.index] = folder.id
        return created

    def _report_placed(self) -> None:
        placed, self._placed = self._placed, {}
        if self.report_folders is not None:
            self.report_folders(placed)

    def _create_logs_soon(self) -> None:
        if self._to_create:
            self._runtime.spawn(self._create_logs(), name="create-logs")

    async def _create_logs(self) -> None:
        while self._to_create:
            for partition in list(islice(self._to_create, LOGS_CREATED_PER_TURN)):
                try:
                    partition.usable_log()
                    self._follow(partition)
                except KafkaError as error:
                    self._to_create.pop(partition, None)
                    log.error("cannot create a log", partition=str(partition), error=str(error))
                    self.noted(error)
            await asyncio.sleep(0)

    def _log_failed(self, error: KafkaError) -> None:
        log.error("a follower's log failed", error=str(error))
        self.noted(error)

    def dir_failed(self, directory: str) -> None:
        """A log dir went offline: its partitions do, the others stay."""
        for partition in self.partitions():
            if partition.log is not None and partition.log.parent_directory == directory:
                partition.set_error(ErrorCode.KAFKA_STORAGE_ERROR)

    # --- group commit ---------------------------------------------------------------------------

    def _flush_soon(self, partition: Partition) -> None:
        self._runtime.spawn(self._flush(partition), name=f"flush {partition}")

    async def _flush(self, partition: Partition) -> None:
        """One fsync after another for as long as the flush settings ask for it. Every batch that
        was appended while one ran is covered by the next: that is the group commit."""
        due = True
        while due and partition.error is None:
            covered = partition.begin_flush()
            try:
                await self._runtime.in_thread(partition.usable_log().flush)
            except KafkaError as error:
                log.error("flush failed", partition=str(partition), error=str(error))
                self.noted(error)
                partition.set_error(ErrorCode.KAFKA_STORAGE_ERROR)
            due = partition.end_flush(covered)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """What `replication-offset-checkpoint` holds."""
        return {
            (partition.topic, partition.index): partition.high_watermark
            for partition in self.partitions()
            if partition.log is not None and partition.error is None
        }


def _counted(partitions: list[Partition]) -> dict[str, object]:
    """How many, and a few of their names, for a line of the log."""
    names = [str(partition) for partition in partitions[:NAMES_TOLD_MAX]]
    more = ["..."] if len(partitions) > NAMES_TOLD_MAX else []
    return {"count": len(partitions), "partitions": ", ".join(names + more)}
