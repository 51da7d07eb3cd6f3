"""The parts of a running consumer, connected, and how a call waits for records.

subscriptions ──> positions ──> fetcher ──answers──> buffer ──> delivery ──> application
      ^                            ^                   │room made
  membership (the group)           └───────────────────┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ottla.client.consumer.delivery.column_delivery import ColumnDelivery
from ottla.client.consumer.delivery.delivery import Delivery
from ottla.client.consumer.delivery.record_decoder import RecordDecoder
from ottla.client.consumer.fetching.answers import FetchAnswers
from ottla.client.consumer.fetching.buffer import FetchBuffer
from ottla.client.consumer.fetching.fetcher import Fetcher
from ottla.client.consumer.fetching.places import FetchPlaces
from ottla.client.consumer.groups.membership import make_membership
from ottla.client.consumer.positions.positions import Positions
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.consumer.topic_errors import TopicErrors
from ottla.client.consumer.wake_signal import WakeSignal
from ottla.client.errors import IllegalState, Wakeup
from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import ClusterView
from ottla.client.settings.consumer import ConsumerSettings

T = TypeVar("T")

ATTEND_SLICE_S = 0.1
"""How long to wait for the group at a time, so that `wakeup` takes effect in between."""
WAIT_SLICE_S = 1.0
"""How long to wait for records at a time: after each slice the group is told of a poll."""


class Core:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        decoder: RecordDecoder,
    ) -> None:
        metrics = cluster.metrics
        self.cluster = cluster
        self.subscriptions = subscriptions
        self._settings = settings
        self._clock = cluster.runtime.clock
        self._signal = WakeSignal(cluster.runtime)
        self.buffer = FetchBuffer(
            subscriptions,
            partition_bytes_max=settings.max_partition_fetch_bytes,
            check_crcs=settings.check_crcs,
            room_made=self._room_made,
        )
        self.positions = Positions(
            cluster,
            settings,
            subscriptions,
            self.buffer,
            resolved=self._go_on,
            raise_later=self._raise_later,
        )
        self._fetcher = self._make_fetcher()
        self.delivery = Delivery(self.buffer, subscriptions, decoder, metrics)
        self.columns = ColumnDelivery(self.buffer, subscriptions, metrics)
        self.membership = make_membership(
            cluster, settings, subscriptions, self._signal.set, metrics
        )
        if settings.group_id is not None:
            self.positions.committed = self.membership.committed
        self._error: Exception | None = None
        self._is_woken = False
        self._is_waiting = False
        self.is_closed = False
        """True if no more records are delivered."""
        self.is_gone = False
        """True if the group has been left, too."""
        self._loop = asyncio.get_running_loop()
        self._topic_errors = TopicErrors(
            subscriptions,
            self._clock.now,
            self._raise_later,
            creates=settings.allow_auto_create_topics,
        )
        self._stop_watching = cluster.metadata.on_change(self._metadata_changed)
        subscriptions.assignment_changed = self.assignment_changed

    def _make_fetcher(self) -> Fetcher:
        cluster, metrics = self.cluster, self.cluster.metrics
        positions = self.positions
        places = FetchPlaces(
            cluster, must_validate=positions.must_validate, recreated=positions.out_of_range
        )
        answers = FetchAnswers(
            cluster,
            self.buffer,
            out_of_range=positions.out_of_range,
            raise_later=self._raise_later,
            metrics=metrics,
        )
        return Fetcher(
            cluster,
            self._settings,
            self.subscriptions,
            self.buffer,
            places,
            answers,
            wake=self._signal.set,
            metrics=metrics,
        )

    # Events

    def assignment_changed(self) -> None:
        """Handle partitions that were assigned or revoked."""
        self.buffer.clear_stale()
        topics = {one.topic for one in self.subscriptions.states}
        # A topic found by a pattern existed. Once deleted it must not be created again.
        create = self._settings.allow_auto_create_topics and self.subscriptions.pattern is None
        self.cluster.metadata.watch(topics, create_missing=create)
        self.reading_changed()

    def reading_changed(self) -> None:
        """Handle a seek, pause or resume: other offsets or partitions are to be fetched."""
        self.buffer.resume()
        self.positions.work()
        self._fetcher.reading_changed()
        self._signal.set()

    def wakeup(self) -> None:
        self._is_woken = True
        self._signal.set()

    def _room_made(self) -> None:
        self._fetcher.room_made()

    def _go_on(self) -> None:
        """Fetch from the positions that have been found."""
        self._fetcher.send()
        self._signal.set()

    def _metadata_changed(self, view: ClusterView) -> None:
        self._topic_errors.look(view)
        self._fetcher.send()

    def _raise_later(self, error: Exception) -> None:
        self._error = self._error or error
        self._signal.set()

    # Waiting

    async def wait_for(self, take: Callable[[], T | None], deadline: float) -> T | None:
        """Return what `take` returns as soon as it is not empty; None at the deadline or when
        closed.

        The call shows that the application has finished with the records it had before.
        """
        self._enter()
        try:
            self.subscriptions.settle()
            # Heartbeats and responses must run, however many records are ready to be delivered.
            await asyncio.sleep(0)
            while not self.is_closed:
                self.membership.polled()
                self._raise_what_is_due()
                await self._attend(deadline)
                self._fetcher.send_if_due()
                # While the group needs attention nothing is delivered: partitions may be revoked.
                if not self.membership.attention.needed and (found := take()):
                    self._fetcher.send_if_due()
                    return found
                wait_s = min(deadline - self._clock.now(), WAIT_SLICE_S)
                if wait_s <= 0:
                    return None
                await self._signal.wait(wait_s)
            return None
        finally:
            self._is_waiting = False

    def _enter(self) -> None:
        if self.is_closed:
            raise IllegalState("the consumer is closed")
        self.check_loop()
        if self.subscriptions.is_empty:
            raise IllegalState(
                "the consumer is to read nothing: call subscribe() or assign() first"
            )
        if self._is_waiting:
            raise IllegalState(
                "another task is waiting for records of this consumer; give each task its own"
            )
        self._is_waiting = True

    def check_loop(self) -> None:
        """Raise if used on another event loop, where waiting tasks would never be woken."""
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalState(
                "the consumer was made on another event loop; start, use and close it on one"
            )

    async def _attend(self, deadline: float) -> None:
        if not self.membership.attention.needed:
            return
        now = self._clock.now()
        # If records are ready, do not wait: they are delivered between the steps of a rebalance.
        limit = now if self.buffer.is_ready else min(deadline, now + ATTEND_SLICE_S)
        await self.membership.attend(limit)

    def _raise_what_is_due(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise Wakeup()
        error, self._error = self._error, None
        if error is not None:
            raise error

    # Close

    def stop(self) -> None:
        """Make waiting calls return nothing."""
        self.is_closed = True
        self._signal.set()

    async def close(self, timeout_ms: int) -> None:
        self.stop()
        try:
            await self.membership.close(timeout_ms)
        finally:
            self.is_gone = True
            self._stop_watching()
            self._fetcher.close()
            await self.positions.close()
