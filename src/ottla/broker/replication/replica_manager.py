"""All replicas on this broker: updated from the metadata, and found by name or id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.broker.replication.cluster_view import ClusterView
from ottla.broker.replication.dirs.moves import DirMoves
from ottla.broker.replication.dirs.reports import DirReports, Placed
from ottla.broker.replication.election_nudge import ElectionNudge
from ottla.broker.replication.fetching.fetchers import Fetchers
from ottla.broker.replication.group_commit import GroupCommit
from ottla.broker.replication.isr_changes import Ask, IsrChanges
from ottla.broker.replication.isr_watch import IsrWatch
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.replica_logs import ReplicaLogs, counted
from ottla.broker.replication.replica_selector import RACK_AWARE
from ottla.broker.replication.throttle import ReplicationThrottle
from ottla.broker.replication.topic import HostedTopic
from ottla.broker.replication.topic_configs import TopicConfigs
from ottla.broker.storage.errors import LogDirFailure
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replication.dirs.move import Confirm
    from ottla.broker.storage.log_manager import LogManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.replication")


class ReplicaManager:
    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        log_manager: LogManager,
        node_id: int,
        *,
        peers: Peers,
        ask: Ask,
        broker_epoch: Callable[[], int],
        report_dirs: Callable[[Placed], object],
        confirm_dir: Confirm,
    ) -> None:
        """`ask` asks the controller about ISRs, `report_dirs` and `confirm_dir` tell it the log
        dirs of replicas; `broker_epoch` returns the present epoch of this broker's registration."""
        self._config = config
        self._log_manager = log_manager
        self._node_id = node_id
        now = runtime.clock.now
        self.view = ClusterView(
            node_id, runtime.clock, config["replica.lag.time.max.ms"], broker_epoch
        )
        self.election_nudge = ElectionNudge(now)
        self.leader_throttle = ReplicationThrottle(node_id, now)
        self.follower_throttle = ReplicationThrottle(node_id, now)
        for throttle in (self.leader_throttle, self.follower_throttle):
            throttle.measure(
                config["replication.quota.window.num"],
                config["replication.quota.window.size.seconds"],
            )
        self._fetchers = Fetchers(
            runtime, self.view, peers, config, self.follower_throttle, self._log_failed
        )
        self._isr_changes = IsrChanges(runtime, self.view, ask)
        # Set late: proposals are made with the view, and partitions propose through it.
        self.view.propose = self._isr_changes.submit
        self._isr_watch = IsrWatch(runtime, self.view, self.partitions)
        self.moves = DirMoves(runtime, config, log_manager, node_id, confirm_dir)
        self._topic_configs = TopicConfigs(config)
        self.selects_by_rack = False
        """True if consumers are sent to replicas in their rack (`replica.selector.class`)."""
        self.topics: dict[str, HostedTopic] = {}
        self.topics_by_id: dict[bytes, HostedTopic] = {}
        self._group_commit = GroupCommit(runtime, self.fail_dir_if_needed)
        self._dir_reports = DirReports(runtime, log_manager, node_id, report_dirs)
        self._logs = ReplicaLogs(
            runtime,
            log_manager,
            node_id,
            self.topics_by_id,
            self._dir_reports,
            self._follow,
            self.fail_dir_if_needed,
        )
        self._limit()

    def close(self) -> None:
        """Stop following. Call this before the logs are closed."""
        self.moves.close()
        self._isr_watch.stop()
        self._fetchers.close()
        self._isr_changes.close()

    # --- lookup ---------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        hosted = self.topics.get(topic)
        partition = None if hosted is None else hosted.partitions.get(index)
        if partition is None:
            raise self.not_here(None if hosted is None else hosted.id, index)
        return partition

    def not_here(self, topic_id: bytes | None, index: int) -> KafkaError:
        """Return the error for a partition that is not on this broker: it is elsewhere, or does not
        exist."""
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
        """Return a partition that this broker leads, or raise."""
        partition = self.partition(topic, index)
        partition.check_leading()
        return partition

    def partitions(self) -> Iterable[Partition]:
        for hosted in self.topics.values():
            yield from hosted.partitions.values()

    def fail_dir_if_needed(self, error: KafkaError) -> KafkaError:
        """Take a log dir offline if the error says that its disk failed. Returns the same error."""
        if isinstance(error, LogDirFailure):
            self._log_manager.fail_dir(error.directory, error.cause)
        return error

    # --- following the metadata -----------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """Host all partitions assigned to this broker, with the logs found on disk."""
        self._isr_watch.start()
        self._logs.is_starting = True
        self.view.image = image
        for topic in image.topics.values():
            for _ in self._host(topic, image):
                pass
        absent = [partition for partition in self.partitions() if partition.error is not None]
        if absent:
            log.error(
                "partitions are offline: the data folder that holds them is not here. Mount the "
                "disk, or put the folder back into log.dirs, and start again",
                **counted(absent),
            )
        self._logs.started()
        self._logs.create_soon()
        self._dir_reports.report_unassigned(self.partitions(), image)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Apply a committed metadata change. It may concern thousands of partitions: other work may
        run wherever this yields, but no later change before it has ended. A request for a partition
        that is not hosted yet is told to retry."""
        self.view.image = image
        for topic in delta.deleted.values():
            yield from self._drop(topic)
        for topic in delta.created.values():
            yield from self._host(topic, image)
        for change in delta.changed.values():
            hosted = self.topics_by_id.get(change.after.id)
            if hosted is None:
                yield from self._host(change.after, image)
                continue
            for index in change.partitions:
                self._place(hosted, change.after.partitions[index])
                yield
        for name in delta.topics_reconfigured():
            if name in self.topics:
                self._configure(self.topics[name], image)
        if delta.brokers:
            self._brokers_changed(image)
        self._logs.create_soon()

    def _brokers_changed(self, image: MetadataImage) -> None:
        self._fetchers.forget_brokers(image.brokers.__contains__)
        self._isr_watch.review()

    def configure_broker(self, config: BrokerConfig, image: MetadataImage) -> None:
        """Apply changed broker settings, which are also the defaults of its topics."""
        self._config = config
        self._topic_configs.configure(config)
        self._limit()
        self.moves.configure(config)
        self._fetchers.configure(config)
        for hosted in self.topics.values():
            self._configure(hosted, image)

    def _limit(self) -> None:
        config = self._config
        self.view.lag_max_ms = config["replica.lag.time.max.ms"]
        self.selects_by_rack = config["replica.selector.class"] == RACK_AWARE
        self.leader_throttle.limit(config["leader.replication.throttled.rate"])
        self.follower_throttle.limit(config["follower.replication.throttled.rate"])

    def _configure(self, hosted: HostedTopic, image: MetadataImage) -> None:
        hosted.configure(self._topic_configs.of(hosted.name, image))
        self._cover(hosted)

    def _cover(self, hosted: HostedTopic) -> None:
        config = hosted.config
        self.leader_throttle.cover(hosted.name, config.leader_replication_throttled_replicas)
        self.follower_throttle.cover(hosted.name, config.follower_replication_throttled_replicas)

    def _host(self, topic: TopicImage, image: MetadataImage) -> Iterator[None]:
        hosted = HostedTopic(topic.name, topic.id, self._topic_configs.of(topic.name, image))
        self._cover(hosted)
        self.topics[topic.name] = self.topics_by_id[topic.id] = hosted
        for partition in topic.partitions.values():
            self._place(hosted, partition)
            yield

    def _place(self, hosted: HostedTopic, assigned: PartitionImage) -> None:
        """Create, remove, lead or follow the partition, as the metadata says."""
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
                self._logs.create,
                self._group_commit.flush_soon,
                self.view,
            )
            hosted.partitions[assigned.index] = partition
            if self._logs.find(partition, assigned):
                self.moves.resume(partition)
        elif partition.error is not None and partition.log is None:
            self._logs.begin_anew(partition, assigned)
        hosted.configure_partition(partition)
        if assigned.leader == self._node_id:
            self._lead(partition, assigned)
        elif partition.follow(assigned):
            self._follow(partition)

    def _lead(self, partition: Partition, assigned: PartitionImage) -> None:
        self._fetchers.leave(partition)
        if partition.lead(assigned) and partition.leading is not None:
            self.election_nudge.elected(partition.leading.followers)

    def _follow(self, partition: Partition) -> None:
        """Copy the partition from its leader, as soon as it has a log."""
        if partition.is_leader or partition.error is not None:
            return
        if partition.log is not None:
            self._fetchers.follow(partition)

    def _move_away(self, hosted: HostedTopic, partition: Partition) -> None:
        """Remove the replica here, which the metadata no longer assigns to this broker."""
        del hosted.partitions[partition.index]
        self._discard(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _discard(self, partition: Partition, error: ErrorCode) -> None:
        self._logs.forget(partition)
        self._fetchers.leave(partition)
        partition.set_error(error)
        self.moves.call_off(partition)
        if partition.log is not None:
            self._log_manager.delete(partition.topic, partition.index)

    def _drop(self, topic: TopicImage) -> Iterator[None]:
        hosted = self.topics_by_id.pop(topic.id, None)
        if hosted is None:
            return
        if self.topics.get(topic.name) is hosted:
            del self.topics[topic.name]
            for throttle in (self.leader_throttle, self.follower_throttle):
                throttle.forget(topic.name)
        partitions = hosted.partitions
        for index in list(partitions):
            # Remove them one by one: freeing thousands at once takes long, too.
            self._discard(partitions.pop(index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            yield

    # --- log dirs -------------------------------------------------------------------------------

    def move(self, topic: str, index: int, path: str) -> None:
        """Move a replica to another log dir of this broker, in the background. A replica that does
        not exist yet will be created there, and REPLICA_NOT_AVAILABLE says that there was none to
        move."""
        target = self._log_manager.dirs.target(path)
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

    def _log_failed(self, error: KafkaError) -> None:
        log.error("a follower's log failed", error=str(error))
        self.fail_dir_if_needed(error)

    def dir_failed(self, directory: str) -> None:
        """Take the partitions of a failed log dir offline; the others stay."""
        for partition in self.partitions():
            if partition.log is not None and partition.log.parent_directory == directory:
                partition.set_error(ErrorCode.KAFKA_STORAGE_ERROR)

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        """Return the content for `replication-offset-checkpoint`."""
        return {
            (partition.topic, partition.index): partition.high_watermark
            for partition in self.partitions()
            if partition.log is not None and partition.error is None
        }
