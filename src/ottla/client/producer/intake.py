"""Takes records from `send` and puts them into batches.

`try_send` runs for every record; it neither waits nor creates a future. If it cannot take a record
at once (metadata, room in the buffer, interceptors), it leaves it to `send`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.client.errors import (
    IllegalState,
    NotBytes,
    ProducerClosed,
    RecordTooLarge,
    TopicMissing,
)
from ottla.client.producer.arguments import bad_headers, check_callback, check_partition
from ottla.client.producer.batching.accumulator import Accumulator
from ottla.client.producer.batching.batch import OnDelivery
from ottla.client.producer.interceptors import Interceptors, ProducerRecord
from ottla.client.producer.routing.partitioners import StickyChoice
from ottla.client.producer.routing.routes import Routes
from ottla.client.producer.routing.topic_route import TopicRoute
from ottla.client.producer.sending.identity import IdentityKeeper
from ottla.client.producer.sent import Sent
from ottla.client.serializers import serializer_of
from ottla.client.settings.producer import ProducerSettings
from ottla.records.engine import murmur2, record_size_max
from ottla.records.header import HEADER_SIZE
from ottla.runtime.clock import Clock

Pairs = Sequence[tuple[str, bytes | None]]
Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]

RECORD_OVERHEAD_MAX = 36
"""The most a record takes besides key, value and headers: lengths, attributes, deltas."""
HEADER_OVERHEAD_MAX = 10
RECORDS_BETWEEN_YIELDS = 256
"""An application that only sends must not starve the event loop, which does the sending."""
NO_HEADERS: Pairs = ()
_POSITIVE = 0x7FFFFFFF


class Intake:
    def __init__(
        self,
        settings: ProducerSettings,
        clock: Clock,
        routes: Routes,
        accumulator: Accumulator,
        keeper: IdentityKeeper,
        interceptors: Interceptors,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall_ms = clock.wall_ms
        self._routes = routes
        self._accumulator = accumulator
        self._memory = accumulator.memory
        self._interceptors = interceptors
        self._check_send: Callable[[], None] | None = None
        if keeper.is_transactional:
            self._check_send = keeper.check_send
        self._serialize_key = serializer_of(settings.key_serializer, "key_serializer")
        self._serialize_value = serializer_of(settings.value_serializer, "value_serializer")
        self._serializes = not (self._serialize_key is None and self._serialize_value is None)
        self._size_max = min(settings.max_request_size, settings.buffer_memory) - HEADER_SIZE
        self._fast: dict[str, TopicRoute] = {} if interceptors else routes.usable
        """Routes that `try_send` may use; empty if there are interceptors, so that each record
        passes them once."""
        self.should_yield = False
        """True if the caller should yield to the event loop after this record."""
        self._is_closed = False
        self._loop = asyncio.get_running_loop()

    # Without waiting

    def try_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
        prepared: TopicRoute | None = None,
    ) -> Sent | None:
        """Take the record. Return None if that needs waiting, which `send` does.

        With `prepared`, nothing needs waiting any more, and the record is already serialized.
        """
        route = prepared
        if route is None:
            route = self._fast.get(topic)
            if route is None:
                return None
            if self._check_send is not None:
                self._check_send()
            if self._serializes:
                key, value, headers = self._serialized(topic, key, value, headers)
        size = RECORD_OVERHEAD_MAX
        if value is not None:
            if type(value) is not bytes:
                value = plain_bytes(value, "value")
            size += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = plain_bytes(key, "key")
            size += len(key)
        pairs = NO_HEADERS
        if headers:
            pairs = header_pairs(headers)
            size += headers_size(pairs)
        if size > self._size_max:
            self._check_size(record_size_max(key, value, pairs))
        memory = self._memory
        if (size + HEADER_SIZE > memory.free or memory.waiting) and prepared is None:
            return None
        sticky = None
        if partition is None:
            if key is not None and route.by_key:
                partition = (murmur2(key) & _POSITIVE) % route.count
            else:
                sticky = route.sticky
                partition = route.chosen(key, value) if sticky is None else sticky.current
        else:
            if type(partition) is not int:
                check_partition(partition)
            if not 0 <= partition < route.count:
                return None
        if on_delivery is not None and not callable(on_delivery):
            check_callback(on_delivery)
        sent = self._append(route, partition, sticky, size, timestamp, key, value, pairs)
        if on_delivery is not None:
            sent.on_delivery(on_delivery)
        return sent

    def _append(
        self,
        route: TopicRoute,
        partition: int,
        sticky: StickyChoice | None,
        size: int,
        timestamp: int | None,
        key: Any,
        value: Any,
        headers: Pairs,
    ) -> Sent:
        """Put a record of at most `size` bytes into a batch. There is memory for it."""
        if timestamp is None:
            timestamp = self._wall_ms()
        elif timestamp < 0:
            raise ValueError(f"timestamp_ms is {timestamp}; it must not be negative")
        queue = route.queues[partition]
        batch = queue.gathering
        limit = route.payload_limit
        if batch is None or batch.writer.size + size > limit:  # type: ignore[union-attr]
            self.check_loop()
            self.should_yield = True
            queue, batch = self._accumulator.batch_with_room(route, queue, size, sticky)
        writer = batch.writer
        assert writer is not None
        index, before = writer.count, writer.size
        try:
            after = writer.append(timestamp, key, value, headers)
        except BaseException:
            self._accumulator.discard_if_empty(queue)
            raise
        batch.memory += after - before
        self._memory.free -= after - before
        if sticky is not None:
            sticky.produced += after - before
            if sticky.produced >= limit:
                sticky.enough(limit, batch_is_full=after >= limit)
        if after >= limit:
            self._accumulator.close(route, queue)
        elif not index % RECORDS_BETWEEN_YIELDS:
            self.should_yield = True
        return Sent(batch, index, timestamp)

    def _serialized(
        self, topic: str, key: Any, value: Any, headers: Headers | None
    ) -> tuple[Any, Any, Pairs]:
        pairs = list(header_pairs(headers)) if headers else []
        if self._serialize_key is not None:
            key = self._serialize_key(topic, key, pairs)
        if self._serialize_value is not None:
            value = self._serialize_value(topic, value, pairs)
        return key, value, pairs

    def _check_size(self, size: int) -> None:
        limits = ("max_request_size", self._settings.max_request_size)
        if size + HEADER_SIZE > self._settings.buffer_memory:
            limits = ("buffer_memory", self._settings.buffer_memory)
        if size + HEADER_SIZE > limits[1]:
            raise RecordTooLarge(size + HEADER_SIZE, *limits)

    # With waiting

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Sent:
        """Take the record, waiting for what it needs, within `max_block_ms`."""
        if partition is not None:
            check_partition(partition)
        if on_delivery is not None:
            check_callback(on_delivery)
        record = ProducerRecord(
            topic, value, key, header_pairs(headers or ()), partition, timestamp_ms
        )
        if not self._interceptors:
            return await self._take(record, on_delivery)
        record = self._interceptors.on_send(record)
        tell = self._interceptors.on_acknowledgement
        try:
            sent = await self._take(record, on_delivery)
        except Exception as error:
            tell(None, error)
            raise
        sent.observe(tell)
        return sent

    async def _take(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Sent:
        self.check_open()
        deadline = self._clock.now() + self._settings.max_block_ms / 1000
        route = await self._routes.find(record.topic, record.partition, deadline)
        self.check_open()
        key, value, headers = self._serialized(
            record.topic, record.key, record.value, record.headers
        )
        size = self._measured(key, value, headers)
        if size > self._memory.free or self._memory.waiting:
            self._accumulator.send_all_now()
            await self._memory.reserve(size, (deadline - self._clock.now()) * 1000)
            # Released and taken within one step of the loop, so that no other caller gets it.
            self._memory.free += size
        try:
            self.check_open()
            rest = (record.partition, record.timestamp_ms, on_delivery)
            sent = self.try_send(record.topic, value, key, headers, *rest, prepared=route)
        finally:
            self._memory.release(0)  # memory that was not needed goes to the next in line
        if sent is None:  # the topic was created again meanwhile, with fewer partitions
            raise TopicMissing(record.topic, record.partition)
        return sent

    def _measured(self, key: Any, value: Any, headers: Pairs) -> int:
        """Return the memory that the record needs if it opens a batch. Raises if it is invalid."""
        if key is not None:
            key = plain_bytes(key, "key")
        if value is not None:
            value = plain_bytes(value, "value")
        headers_size(headers)
        size = record_size_max(key, value, headers)
        self._check_size(size)
        return size + HEADER_SIZE

    def check_loop(self) -> None:
        """Raise on another event loop than its own, where the producer would wait for ever."""
        if asyncio.get_running_loop() is not self._loop:
            raise IllegalState(
                "this producer was made on another event loop; start and use it on the same one"
            )

    def check_open(self) -> None:
        self.check_loop()
        if self._is_closed:
            raise ProducerClosed
        if self._check_send is not None:
            self._check_send()

    def close(self) -> None:
        """Take no more records; callers that wait for room get `ProducerClosed`."""
        self._is_closed = True
        self._fast = {}
        self._memory.fail_all(ProducerClosed())


def plain_bytes(value: Any, what: str) -> bytes | bytearray | memoryview:
    """Return a bytes-like object whose `len` is its size in bytes."""
    if isinstance(value, (bytes, bytearray)):
        return value
    if isinstance(value, memoryview):
        return value.cast("B") if value.contiguous else bytes(value)
    raise NotBytes(what, value)


def header_pairs(headers: Headers) -> Pairs:
    if isinstance(headers, Mapping):
        return tuple(headers.items())
    if isinstance(headers, (list, tuple)):
        return headers
    if isinstance(headers, str) or not isinstance(headers, Iterable):
        raise bad_headers(headers)
    return tuple(headers)


def headers_size(headers: Pairs) -> int:
    """Return an upper bound: each character of a name counts as four bytes."""
    size = 0
    for pair in headers:
        try:
            name, value = pair
        except (TypeError, ValueError):
            raise bad_headers(pair) from None
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is {type(name).__name__}, not str")
        size += HEADER_OVERHEAD_MAX + 4 * len(name)
        if value is not None:
            size += len(plain_bytes(value, "value of a header"))
    return size
