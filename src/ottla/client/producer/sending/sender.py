"""Sends batches to the leaders of their partitions, with as many requests at once as allowed.

There is no task per request and none that waits: events (a full batch, a response, an open
connection, changed leaders) wake the sender, which then sends everything it can. `delivery.py`
decides what happens to the batches.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ottla.client.network.cluster import Cluster
from ottla.client.producer.batching.accumulator import Accumulator
from ottla.client.producer.batching.batch import ProducerBatch
from ottla.client.producer.batching.partition_queue import NO_LEADER, PartitionQueue
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.producer.sending.delivery import Delivery
from ottla.client.producer.sending.failures import Failures
from ottla.client.producer.sending.identity import IdentityKeeper
from ottla.client.producer.sending.lane import Lane
from ottla.client.producer.sending.outbox import ProducerOutbox
from ottla.client.producer.sending.requests import Load
from ottla.client.settings.producer import ProducerSettings
from ottla.network.connection import Connection
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.codec import Codec
from ottla.records.header import HEADER_SIZE

NO_ACKS = 0


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        routes: dict[str, TopicRoute],
        metrics: ProducerMetrics,
    ) -> None:
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._settings = settings
        self._routes = routes
        self._metrics = metrics
        self._acks = settings.required_acks
        self._codec = Codec[(settings.compression_type or "none").upper()]
        self._in_flight_max = settings.max_in_flight_requests_per_connection
        self._lanes: dict[int, Lane] = {}
        self._is_awake = False
        self._is_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.accumulator = Accumulator(settings, self._runtime, self.ready)
        self.outbox = ProducerOutbox(routes, self._lanes, self.accumulator, self.wake)
        self.failures = Failures()
        self.delivery = Delivery(
            cluster, settings, routes, self.accumulator, self.failures, metrics, self
        )

    @property
    def keeper(self) -> IdentityKeeper:
        return self.delivery.keeper

    # Events

    def ready(self, queue: PartitionQueue) -> None:
        """Note that the queue has something to send."""
        if queue.resting:
            return
        lane = self._lane(queue.leader)
        if queue not in lane.ready:
            lane.ready[queue] = None
            if queue.leader == NO_LEADER:
                self._cluster.metadata.request_refresh()
        self.wake()

    def wake(self) -> None:
        if not self._is_awake and not self._is_stopped:
            self._is_awake = True
            self._runtime.call_soon(self._run)

    def rest(self, queue: PartitionQueue, pause_s: float) -> None:
        """Pause a partition after a failure."""
        for lane in self._lanes.values():
            lane.ready.pop(queue, None)
        if not queue.resting:
            queue.resting = True
            self._runtime.call_later(pause_s, self._rested, queue)

    def _rested(self, queue: PartitionQueue) -> None:
        queue.resting = False
        if queue.has_work(self._runtime.clock.now()):
            self.ready(queue)

    def leaders_changed(self, queues: list[PartitionQueue]) -> None:
        """End the pauses of these queues: failures of an old leader do not concern a new one."""
        for queue in queues:
            for lane in self._lanes.values():
                if lane.ready.pop(queue, self) is None:
                    break
            self._rested(queue)

    def is_slow(self, node_id: int) -> bool:
        """Return whether a broker took nothing for `partitioner_availability_timeout_ms`."""
        limit_ms = self._settings.partitioner_availability_timeout_ms
        lane = self._lanes.get(node_id)
        if limit_ms <= 0 or lane is None:
            return False
        return lane.is_slow(self._runtime.clock.now(), limit_ms / 1000)

    def trouble_of(self, node_id: int) -> Exception | None:
        """Return why nothing can be sent to a broker, if known."""
        lane = self._lanes.get(node_id)
        return None if lane is None else lane.trouble

    def _lane(self, node_id: int) -> Lane:
        lane = self._lanes.get(node_id)
        if lane is None:
            lane = self._lanes[node_id] = Lane(node_id)
        return lane

    # Sending

    def _run(self) -> None:
        self._is_awake = False
        if self._is_stopped:
            return
        self.delivery.watch_deadlines()
        lanes = [lane for lane in self._lanes.values() if lane.ready]
        if lanes and self.keeper.ready:
            for lane in lanes:
                if lane.node_id != NO_LEADER:
                    self._serve(lane)

    def _serve(self, lane: Lane) -> None:
        connection = self._cluster.open_connection(lane.node_id)
        now = self._runtime.clock.now()
        if connection is None:
            lane.is_stuck(now)
            self._open(lane)
        elif connection.throttled_until > now:
            self._pause(lane, connection.throttled_until - now)
        else:
            while lane.in_flight < self._in_flight_max:
                load = self._load(lane, connection, now)
                if not load.batches:
                    return
                lane.moves()
                self._post(lane, connection, load)
            if lane.ready:
                lane.is_stuck(now)

    def _load(self, lane: Lane, wire: Connection, now: float) -> Load:
        """Build the next request: a batch of each ready partition, as many as fit."""
        load = Load()
        keeper = self.keeper
        for queue in list(lane.ready):
            if not queue.has_work(now):
                del lane.ready[queue]
                continue
            if not keeper.admits(queue.partition) or not self.delivery.may_go_on(queue):
                continue
            batch = queue.peek()
            if load.batches and batch is not None and self._is_too_much(load, batch):
                break
            batch = queue.take(keeper.identity, wire, self._in_flight_of_partition())
            if batch is None:
                continue
            load.add(batch, self._sealed(batch))
            del lane.ready[queue]
            if queue.has_work(now):
                lane.ready[queue] = None  # behind the other queues, whose turn is next
        return load

    def _is_too_much(self, load: Load, batch: ProducerBatch) -> bool:
        size = batch.memory if batch.data is None else len(batch.data)
        return load.size + size > self._settings.max_request_size

    def _in_flight_of_partition(self) -> int:
        """Return the limit of pending batches per partition: an idempotent producer without an
        identity keeps the order by waiting."""
        is_plain = self._settings.is_idempotent and not self.keeper.identity.known
        return 1 if is_plain else self._in_flight_max

    def _sealed(self, batch: ProducerBatch) -> int:
        if batch.data is None:
            before = batch.memory - HEADER_SIZE
            data = batch.sealed(
                self._codec,
                self._settings.compression_level,
                transactional=self.keeper.is_transactional,
            )
            self.accumulator.shrink(batch, len(data))
            if self._codec:
                ratio = (len(data) - HEADER_SIZE) / max(1, before)
                self._metrics.compression_rate.record(ratio)
                self._routes[batch.partition.topic].compressed(ratio)
        assert batch.data is not None
        return len(batch.data)

    def _post(self, lane: Lane, connection: Connection, load: Load) -> None:
        load.posted_at = self._runtime.clock.now()
        request = load.request(
            self._routes,
            acks=self._acks,
            timeout_ms=self._settings.request_timeout_ms,
            transactional_id=self.keeper.transactional_id,
        )
        self._metrics.posted(load)
        try:
            version = self._version(connection)
            if self._acks == NO_ACKS:
                connection.post_unanswered(request, version=version)
                self._unanswered(lane, connection, load)
                return
            reply = connection.post(request, version=version)
        except Exception as error:
            self.delivery.failed(load, error)
            return
        lane.in_flight += 1
        reply.add_done_callback(partial(self._answered, lane, load))

    def _version(self, connection: Connection) -> int | None:
        limit = self.keeper.produce_version_max
        return None if limit is None else min(limit, connection.version_of(ProduceRequest))

    def _answered(self, lane: Lane, load: Load, reply: asyncio.Future[Any]) -> None:
        lane.in_flight -= 1
        if not reply.cancelled():
            error = reply.exception()
            if error is None:
                self.delivery.answered(load, reply.result())
            else:
                self.delivery.failed(load, error)
        self.outbox.answered()
        self.wake()

    def _unanswered(self, lane: Lane, connection: Connection, load: Load) -> None:
        """Complete batches sent without acks, once the kernel has taken their bytes."""
        if connection.is_drained:
            self.delivery.left(load)
            return

        async def when_drained() -> None:
            await connection.drained()
            lane.in_flight -= 1
            self.delivery.left(load)
            self.outbox.answered()
            self.wake()

        lane.in_flight += 1
        self._start(when_drained())

    # Connections

    def _open(self, lane: Lane) -> None:
        if not lane.is_opening:
            lane.is_opening = True
            self._start(self._opened(lane))

    async def _opened(self, lane: Lane) -> None:
        try:
            await self._cluster.connection(lane.node_id)
            lane.trouble = None
        except Exception as error:
            lane.trouble = error
            self._cluster.metadata.request_refresh()
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        finally:
            lane.is_opening = False
        self.wake()

    def _pause(self, lane: Lane, pause_s: float) -> None:
        def over() -> None:
            lane.pause = None
            self.wake()

        if lane.pause is None:
            lane.pause = self._runtime.call_later(pause_s, over)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Failing and stopping

    def give_up_all(self, error: Exception) -> None:
        """Fail all batches, because none can ever be sent."""
        self.delivery.give_up_all(error)
        self.outbox.answered()

    def give_up_for_closing(self) -> None:
        self.delivery.give_up_for_closing()
        self.outbox.answered()

    async def stop(self) -> None:
        self._is_stopped = True
        self.accumulator.stop()
        self.delivery.stop()
        for lane in self._lanes.values():
            if lane.pause is not None:
                lane.pause.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
