"""Sends fetch requests: one at a time to each broker, the next one as soon as there is room.

Responses go to the buffer from the connection's callback, and the next request is sent from there:
while the application processes records, more are on their way. A partition with enough buffered
records is left out. So memory is bounded by twice `max_partition_fetch_bytes` per partition, and by
`fetch_max_bytes` plus one response per broker.

A broker holds a request until it has records, `fetch_max_wait_ms` at most. If partitions were left
out, it holds it for less, because they will have room soon. This wait doubles each time, so that a
slow application does not cause a flood of requests.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

from ottla.client.consumer.fetching.answers import FetchAnswers
from ottla.client.consumer.fetching.buffer import FetchBuffer
from ottla.client.consumer.fetching.places import FetchPlaces
from ottla.client.consumer.fetching.sessions import Asked, FetchSession
from ottla.client.consumer.partition_state import UNKNOWN, PartitionState
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import ClientError
from ottla.client.network.backoff import Pauses
from ottla.client.network.cluster import Cluster
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.counters import MetricRegistry
from ottla.network.connection import Connection
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.fetch_sessions import LOST_SESSION
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.uuids import ZERO_UUID
from ottla.runtime.runtime import Timer

log = logging.getLogger("ottla.client.consumer")

TOPIC_IDS_FROM = 13
PATIENCE_FIRST_MS = 10


class Plan:
    """One request to a broker, and the versions of the partition states it is for."""

    __slots__ = ("left_out", "states", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, Asked] = {}
        self.states: dict[TopicPartition, tuple[PartitionState, int]] = {}
        self.left_out = False
        """True if partitions of this broker are paused, or wait for room in the buffer."""


class Node:
    """The state of fetching from one broker."""

    __slots__ = ("id", "is_busy", "is_needed", "patience_ms", "pauses", "rest_until", "session")

    def __init__(self, node_id: int, pauses: Pauses) -> None:
        self.id = node_id
        self.session = FetchSession()
        self.is_busy = False
        """True while a request or an attempt to connect is under way."""
        self.is_needed = True
        """True if it had partitions to read when the last requests were planned."""
        self.rest_until = 0.0
        self.pauses = pauses
        self.patience_ms = PATIENCE_FIRST_MS


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscriptions: Subscriptions,
        buffer: FetchBuffer,
        places: FetchPlaces,
        answers: FetchAnswers,
        *,
        wake: Callable[[], None],
        metrics: MetricRegistry,
    ) -> None:
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._settings = settings
        self._subscriptions = subscriptions
        self._buffer = buffer
        self._places = places
        self._answers = answers
        self._wake = wake
        self._nodes: dict[int, Node] = {}
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._is_closed = False
        self._is_due = True
        self._has_changed = True
        self._latency = metrics.timer("fetch-latency")
        self._throttle = metrics.timer("fetch-throttle-time")
        self._fetches = metrics.counter("fetch-total")

    # Sending

    def room_made(self) -> None:
        """Note that the application has taken enough for more to be fetched."""
        self._is_due = True
        for node in self._nodes.values():
            node.patience_ms = PATIENCE_FIRST_MS

    def reading_changed(self) -> None:
        """Note that other partitions or offsets are to be read."""
        self._has_changed = True
        self.room_made()

    def send_if_due(self) -> None:
        """Send, unless every broker is busy: this is called often, and planning is costly."""
        if self._has_changed or (
            self._is_due and not (self._nodes and all(map(_has_no_time, self._nodes.values())))
        ):
            self.send()

    def send(self) -> None:
        """Send a request to every broker that has none under way and partitions to fetch."""
        self._is_due = False
        if self._is_closed or self._buffer.size > self._settings.fetch_max_bytes:
            return
        self._has_changed = False
        plans = self._plans()
        for known in self._nodes.values():
            known.is_needed = known.id in plans
        for node_id, plan in plans.items():
            node = self._nodes.get(node_id)
            if node is None:
                node = self._nodes[node_id] = Node(node_id, self._cluster.pauses())
            if plan.wanted and not node.is_busy and not self._is_resting(node.rest_until):
                self._post_or_connect(node, plan)

    def _plans(self) -> dict[int, Plan]:
        now = self._runtime.clock.now()
        plans: dict[int, Plan] = {}
        bytes_max = self._settings.max_partition_fetch_bytes
        for partition, state in list(self._subscriptions.states.items()):
            if not state.is_readable or self._is_resting(state.rest_until):
                continue
            place = self._places.find(state, now)
            if place is None:
                continue
            plan = plans.get(place.node_id)
            if plan is None:
                plan = plans[place.node_id] = Plan()
            if state.paused or not self._buffer.has_room(state):
                plan.left_out = True
                continue
            plan.states[partition] = state, state.version
            plan.wanted[partition] = Asked(
                place.topic_id, state.fetched, place.leader_epoch, bytes_max, place.is_leader
            )
        return plans

    def _is_resting(self, until: float) -> bool:
        """Return whether `until` is in the future; if so, `send` runs again by then."""
        now = self._runtime.clock.now()
        if until <= now:
            return False
        if self._timer is None or until < self._timer_at or self._timer_at <= now:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = until
            self._timer = self._runtime.call_later(until - now, self.send)
        return True

    def _post_or_connect(self, node: Node, plan: Plan) -> None:
        connection = self._cluster.open_connection(node.id, "fetch")
        if connection is None:
            node.is_busy = True
            self._runtime.spawn(self._connect(node), name=f"connect to {node.id} for fetching")
        elif not self._is_resting(connection.throttled_until):
            try:
                self._post(connection, node, plan)
            except (ClientError, KafkaError) as error:
                self._failed(node, plan, error)

    def _post(self, connection: Connection, node: Node, plan: Plan) -> None:
        settings = self._settings
        wait_ms = settings.fetch_max_wait_ms
        if plan.left_out:
            wait_ms = min(wait_ms, node.patience_ms)
            node.patience_ms = min(2 * node.patience_ms, settings.fetch_max_wait_ms)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.is_read_committed),
            rack_id=settings.client_rack,
        )
        version = connection.version_of(request)
        by_id = version >= TOPIC_IDS_FROM and not any(
            asked.topic_id == ZERO_UUID for asked in plan.wanted.values()
        )
        node.session.fill(request, plan.wanted, by_id=by_id)
        answer = connection.post(
            request,
            version=version if by_id else min(version, TOPIC_IDS_FROM - 1),
            timeout_ms=settings.request_timeout_ms + wait_ms,
        )
        node.is_busy = True
        answer.add_done_callback(
            functools.partial(self._answered, node, plan, self._runtime.clock.now())
        )

    async def _connect(self, node: Node) -> None:
        try:
            await self._cluster.broker_for_fetching(node.id)
            node.is_busy = False
        except (ClientError, KafkaError) as error:
            node.is_busy = False
            self._failed(node, None, error)
        self.send()

    # Responses

    def _answered(
        self, node: Node, plan: Plan, sent_at: float, answer: asyncio.Future[Any]
    ) -> None:
        node.is_busy = False
        if self._is_closed or answer.cancelled():
            if not answer.cancelled():
                answer.exception()  # marks it as retrieved: nobody needs it any more
            return
        error = answer.exception()
        if error is not None:
            self._failed(node, plan, error)
        else:
            self._latency.record((self._runtime.clock.now() - sent_at) * 1000)
            self._take(node, plan, answer.result())
        self.send()
        self._wake()

    def _take(self, node: Node, plan: Plan, response: Any) -> None:
        self._fetches.add()
        self._throttle.record(response.throttle_time_ms)
        if not node.session.answered(response.error_code, response.session_id):
            code = ErrorCode.of(response.error_code)
            log.debug("fetch session with broker %d: %s", node.id, code.name)
            if code not in LOST_SESSION:
                self._failed(node, plan, KafkaError(code))
            return
        node.pauses.reset()
        try:
            self._answers.take(node.id, plan.states, plan.wanted, response)
        except Exception:  # a broker's response must not end the fetching
            log.exception("an answer of broker %d could not be used", node.id)
            self._rest(node)

    def _failed(self, node: Node, plan: Plan | None, error: BaseException) -> None:
        """Handle a failed request: another broker may lead the partitions by now."""
        log.debug("fetching from broker %d failed: %s", node.id, error)
        node.session.renew()
        for state in self._subscriptions.states.values():
            if state.preferred_replica == node.id:
                state.preferred_replica = UNKNOWN
        self._cluster.metadata.request_refresh()
        self._rest(node)

    def _rest(self, node: Node) -> None:
        pause_s = node.pauses.next_s(self._runtime.random)
        node.rest_until = self._runtime.clock.now() + pause_s

    def close(self) -> None:
        """Send nothing more, except requests that close the sessions."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for node in self._nodes.values():
            connection = self._cluster.open_connection(node.id, "fetch")
            if connection is not None and node.session.is_open and not node.is_busy:
                try:
                    connection.post(node.session.last_request()).add_done_callback(_looked_at)
                except (ClientError, KafkaError) as error:
                    log.debug("session with broker %d not closed: %s", node.id, error)


def _has_no_time(node: Node) -> bool:
    return node.is_busy or not node.is_needed


def _looked_at(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()
