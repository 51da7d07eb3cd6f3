"""Runs the shards of one internal topic: loads them, runs their steps, writes, replies, fires
timers.

request -> step(shard, now, outbox) -> records appended as one batch -> timers set
        -> replies sent once the high watermark has passed everything appended so far
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic

from ottla.broker.coordinator.early_requests import EarlyRequests
from ottla.broker.coordinator.hashing import partition_of
from ottla.broker.coordinator.hosted_shard import HostedShard
from ottla.broker.coordinator.outbox import Now, Outbox
from ottla.broker.coordinator.shard import S, Step, Token
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.broker.replication.partition import TransactionEnd as Marker
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.runtime.runtime import Runtime

__all__ = ["Answer", "CoordinatorRuntime", "HostedShard", "Marker"]

log = get_logger("ottla.coordinator")

RELOAD_DELAY_S: Final = 0.05
RELOAD_AGAIN_DELAY_S: Final = 5.0
"""Delay before reloading a recently reloaded shard."""


class CoordinatorRuntime(Generic[S]):
    """The coordinator of one internal topic on this broker."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: ReplicaManager,
        *,
        node_id: int,
        topic: str,
        make_shard: Callable[[int], S],
        unloaded: Callable[[int], object] = lambda index: None,
        reply_timeout_ms: int,
    ) -> None:
        """`make_shard` makes an empty shard for a partition of `topic`. `unloaded` is called when a
        shard was dropped: nothing may be done on its behalf any more."""
        self.runtime = runtime
        self.replicas = replicas
        self.topic = topic
        self.reply_timeout_ms = reply_timeout_ms
        self.node_id = node_id
        self._make_shard = make_shard
        self._unloaded = unloaded
        self._image = EMPTY_IMAGE
        self._hosted: dict[int, HostedShard[S]] = {}
        self._to_load: deque[HostedShard[S]] = deque()
        self._loading = False
        self._closed = False
        self._reloaded_s: dict[int, float] = {}
        self._to_reload: set[int] = set()
        self._early = EarlyRequests(runtime)

    def now(self) -> Now:
        clock = self.runtime.clock
        return Now(int(clock.now() * 1000), clock.wall_ms())

    # --- requests -------------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """Return the partition that a group or transactional id belongs to."""
        topic = self._image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no {self.topic} yet")
        return partition_of(key, len(topic.partitions))

    def hosted(self, index: int) -> HostedShard[S]:
        found = self._hosted.get(index)
        if found is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self.topic}-{index}"
            )
        return found

    def request(
        self,
        key: str,
        token: Token,
        step: Step[S],
        producer: tuple[int, int] | None = None,
        *,
        writes: bool = True,
    ) -> None:
        """Run a step on the shard of `key`. `token` is always answered: by this step, by a later
        one, or with an error. `producer` (id, epoch) must be given if the step writes in a
        transaction. A step that never `writes` also runs if the partition has too few in-sync
        replicas."""
        if self.topic not in self._image.topics:
            again = partial(self.request, key, token, step, producer, writes=writes)
            self._early.hold(token, again)
            return
        try:
            hosted = self.hosted(self.partition_for(key))
            if producer is not None:
                hosted.check_producer(*producer)
        except KafkaError as error:
            token.fail(error)
            return
        hosted.request(token, step, writes=writes)

    def run(self, index: int, step: Step[S]) -> None:
        """Run a step on the shard of a partition; raises `KafkaError` if that is impossible."""
        self.hosted(index).run(step)

    async def ask(self, index: int, step: Callable[[S, Token, Now, Outbox], None]) -> Any:
        """Run a step and wait for its answer; raises `KafkaError`."""
        answer = Answer()
        hosted = self.hosted(index)
        hosted.request(answer, lambda shard, now, outbox: step(shard, answer, now, outbox))
        return await answer.future

    def end_transaction(self, index: int, marker: Marker, token: Token, response: Message) -> None:
        """Write a transaction marker into a partition of this topic; `response` answers `token`
        once it is committed."""
        try:
            hosted = self.hosted(index)
        except KafkaError as error:
            token.fail(error)
            return
        hosted.end_transaction(marker, token, response)

    def shards(self) -> Iterator[tuple[int, S]]:
        """Yield all shards of this broker; raises while one of them is loading."""
        if self._to_reload:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for index, hosted in sorted(self._hosted.items()):
            if hosted.shard is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            yield index, hosted.shard

    # --- following the metadata -----------------------------------------------------------------

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take over a metadata change. Call this after the replica manager has applied it."""
        self._image = image
        topic = self.replicas.topics.get(self.topic)
        led: dict[int, Partition] = {}
        if topic is not None:
            led = {
                index: partition
                for index, partition in topic.partitions.items()
                if partition.leader_id == self.node_id and partition.error is None
            }
        for index, hosted in list(self._hosted.items()):
            partition = led.get(index)
            if partition is hosted.partition:
                hosted.lead_on(partition.leader_epoch)
                hosted.metadata_changed(delta, image)
            else:
                self._drop(hosted, ErrorCode.NOT_COORDINATOR)
        self._to_reload &= led.keys()
        for index, partition in led.items():
            if index not in self._hosted:
                self._host(index, partition)
        if self.topic in image.topics:
            self._early.resume_all()

    def _host(self, index: int, partition: Partition) -> None:
        hosted = self._hosted[index] = HostedShard(self, partition)
        self._to_reload.discard(index)
        if partition.log is None or partition.log.end_offset == partition.log.log_start_offset:
            hosted.activate(self._make_shard(index), self._image)
            return
        self._to_load.append(hosted)
        if not self._loading:
            self._loading = True
            self.runtime.spawn(self._load_all(), name=f"load {self.topic}")

    def reload(self, hosted: HostedShard[S], reason: ErrorCode) -> None:
        """Drop a shard and load it again from the log, if this broker still leads the partition."""
        if hosted.is_dropped:
            return
        self._drop(hosted, reason)
        index = hosted.partition.index
        if not self._closed:
            now_s = self.runtime.clock.now()
            recently = now_s - self._reloaded_s.get(index, -math.inf) < 2 * RELOAD_AGAIN_DELAY_S
            self._reloaded_s[index] = now_s
            self._to_reload.add(index)
            delay_s = RELOAD_AGAIN_DELAY_S if recently else RELOAD_DELAY_S
            self.runtime.call_later(delay_s, self._look_again)

    def _drop(self, hosted: HostedShard[S], reason: ErrorCode) -> None:
        index = hosted.partition.index
        if self._hosted.get(index) is hosted:
            del self._hosted[index]
        hosted.drop(reason)
        self._unloaded(index)

    def _look_again(self) -> None:
        if not self._closed:
            self.metadata_changed(MetadataDelta(), self._image)

    # --- loading --------------------------------------------------------------------------------

    async def _load_all(self) -> None:
        try:
            while self._to_load:
                await self._load(self._to_load.popleft())
        finally:
            self._loading = False

    async def _load(self, hosted: HostedShard[S]) -> None:
        if hosted.is_dropped:
            return
        started = self.runtime.clock.now()
        shard = self._make_shard(hosted.partition.index)
        try:
            replay = await hosted.load(shard)
        except Exception as error:
            log.error("shard not loaded", partition=str(hosted.partition), error=repr(error))
            self.reload(hosted, ErrorCode.NOT_COORDINATOR)
            return
        if not hosted.is_dropped:
            hosted.activate(shard, self._image)
            took_ms = round((self.runtime.clock.now() - started) * 1000)
            log.debug(
                "loaded", partition=str(hosted.partition), records=replay.events, took_ms=took_ms
            )

    def close(self) -> None:
        """Drop all shards: clients look for another coordinator."""
        self._closed = True
        self._to_load.clear()
        self._early.refuse_all()
        for hosted in self._hosted.values():
            hosted.drop(ErrorCode.NOT_COORDINATOR)
        self._hosted.clear()


class Answer:
    """A token for coroutines."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def resolved(self) -> bool:
        return self.future.done()

    def resolve(self, response: Any) -> None:
        if not self.future.done():
            self.future.set_result(response)

    def fail(self, error: KafkaError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
