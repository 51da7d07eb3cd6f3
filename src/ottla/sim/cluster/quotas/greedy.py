"""Clients that take all they get: they ask again at once, whatever they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ottla.broker.metadata.security_image import QuotaKey
from ottla.network.connection import Connection
from ottla.network.errors import RequestTimedOut
from ottla.network.opening import open_connection
from ottla.network.sasl_mechanisms import signing_in_with
from ottla.network.security import PLAINTEXT
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.sim.cluster.quotas.book import Life, QuotaBook, Served
from ottla.sim.cluster.quotas.limited import GREEDY, MUTATOR, VALUE_BYTES_MAX
from ottla.sim.cluster.rights import ADMIN, sign_in
from ottla.sim.cluster.shape import CLIENT_PORT
from ottla.sim.cluster.work import FAIR_WAIT_S_MAX, Client, Work
from ottla.sim.history import Violation
from ottla.sim.runtime import SimRuntime

REQUEST_TIMEOUT_MS = 25_000
"""Longer than anybody is muted: twelve windows of the largest quota, under the smallest one."""
PAUSE_S = 0.03
PAUSE_WITHOUT_QUOTA_S = 0.4
ROUNDED_S = 0.002
SILENCE_S_MAX = 5.0
PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, DELETE_VERSION = 9, 12, 7, 5
TOPICS = 3
PARTITIONS_MAX = 3

AskOnce = Callable[[Connection, int, Life], Awaitable[QuotaKey]]
"""Asks a broker, given its id and its life, and returns which quota that is charged to."""


class Line:
    """Speaks to one broker at a time, and checks that it answers first and is silent then."""

    def __init__(
        self, work: Work, book: QuotaBook, runtime: SimRuntime, name: str, client_id: str
    ) -> None:
        self.work = work
        self.book = book
        self.client_id = client_id
        self.number = 0
        """Counts the connections."""
        self._runtime = runtime
        self._name = name
        self._muted_s = (0.0, 0.0)
        """The earliest and the latest moment at which the broker may serve it again."""

    async def use(self, client: Client, ask_once: AskOnce) -> None:
        """Connect to a broker, and ask it again and again until an error or the end."""
        node = client.chance.choice(self.work.shape.brokers)
        connection = await self.open(node.host)
        try:
            life = self.book.life_of(node.id)
            until = client.lifetime()
            while life is not None and self.work.writing and self.work.now() < until:
                key = await ask_once(connection, node.id, life)
                self.work.did(self._name)
                await self.pause(life, key)
        finally:
            connection.close()

    async def pause(self, life: Life, key: QuotaKey) -> None:
        is_limited = self.book.is_limited(life, self.client_id, key)
        await asyncio.sleep(PAUSE_S if is_limited else PAUSE_WITHOUT_QUOTA_S)

    async def open(self, host: str) -> Connection:
        """Connect, as a super user if there are users: those are limited, too."""
        security = PLAINTEXT
        if self.work.shape.guarded:
            options = sign_in(ADMIN)
            mechanism, user = options["sasl_mechanism"], options["sasl_username"]
            begin = signing_in_with(mechanism, user, options["sasl_password"])
            security = replace(security, mechanism=mechanism, begin_sign_in=begin)
        self.number += 1
        self._muted_s = (0.0, 0.0)
        return await open_connection(
            self._runtime,
            (host, CLIENT_PORT),
            client_id=self.client_id,
            security=security,
            connect_timeout_ms=3000,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )

    async def ask(
        self, connection: Connection, request: Any, version: int, node_id: int, life: Life
    ) -> tuple[Any, float, float]:
        """Return the response, when it was asked for, and when it was there. `post` does not wait
        until a throttle time is over: the broker must."""
        self.book.look()
        sent_s = self.work.now()
        try:
            response = await connection.post(request, version=version)
        except RequestTimedOut:
            self._check_silence(node_id, life, sent_s)
            raise
        received_s = self.work.now()
        self.book.look()
        earliest_s, latest_s = self._muted_s
        if received_s < earliest_s - ROUNDED_S:
            early_s = earliest_s - received_s
            raise Violation(f"{self._name} was served {early_s:.3f} s before its mute was over")
        throttle_s = response.throttle_time_ms / 1000
        waited_s = received_s - max(sent_s, latest_s)
        if self.work.is_fair and waited_s >= throttle_s > FAIR_WAIT_S_MAX:
            raise Violation(f"{self._name} was muted for {waited_s:.1f} s before it was answered")
        self._muted_s = sent_s + throttle_s, received_s + throttle_s
        return response, sent_s, received_s

    def _check_silence(self, node_id: int, life: Life, sent_s: float) -> None:
        """Raise if a broker that nothing troubles does not answer, though the mute is over."""
        healed_s = self.work.healed_s
        if healed_s is None or self.book.life_of(node_id) != life:
            return
        silent_s = self.work.now() - max(sent_s, self._muted_s[1], healed_s)
        if silent_s > SILENCE_S_MAX:
            raise Violation(f"{self._name} is muted since {silent_s:.1f} s, for no reason")


class Greedy(Client):
    """Writes and reads as much as it can. One without a quota must never be throttled."""

    def __init__(
        self,
        work: Work,
        book: QuotaBook,
        runtime: SimRuntime,
        name: str,
        client_id: str = GREEDY,
    ) -> None:
        super().__init__(work, runtime, name)
        self.book = book
        self.line = Line(work, book, runtime, name, client_id)

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        await self.line.use(self, self._ask_once)

    async def _ask_once(self, connection: Connection, node_id: int, life: Life) -> QuotaKey:
        partition = self._partition(node_id)
        if self.chance.random() < 0.5:
            return await self._fetch(connection, partition, node_id, life)
        value = self.chance.randbytes(self.chance.randint(VALUE_BYTES_MAX // 2, VALUE_BYTES_MAX))
        batch = build_batch([Record(0, self.runtime.clock.wall_ms(), None, value, ())])
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=2000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        response, sent_s, received_s = await self.line.ask(
            connection, request, PRODUCE_VERSION, node_id, life
        )
        key, served = (
            QuotaKey.PRODUCER_BYTE_RATE,
            Served(sent_s, received_s, len(value), (self.name, self.line.number)),
        )
        self.book.answered(life, self.line.client_id, key, served, response.throttle_time_ms)
        return key

    async def _fetch(
        self, connection: Connection, partition: int, node_id: int, life: Life
    ) -> QuotaKey:
        wanted = FetchPartition(
            partition=partition,
            fetch_offset=self.chance.randrange(3),
            partition_max_bytes=2 * VALUE_BYTES_MAX,
        )
        request = FetchRequest(
            session_epoch=-1,
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=2 * VALUE_BYTES_MAX,
            topics=[FetchTopic(topic=self._topic, partitions=[wanted])],
        )
        response, sent_s, received_s = await self.line.ask(
            connection, request, FETCH_VERSION, node_id, life
        )
        found = [one for topic in response.responses for one in topic.partitions]
        size = sum(len(one.records or b"") for one in found)
        if size and response.throttle_time_ms:
            raise Violation(f"{self.name} got {size} bytes and was throttled for them")
        key, served = (
            QuotaKey.CONSUMER_BYTE_RATE,
            Served(sent_s, received_s, size, (self.name, self.line.number)),
        )
        self.book.answered(life, self.line.client_id, key, served, response.throttle_time_ms)
        return key

    @property
    def _topic(self) -> str:
        assert self.work.shape.limited is not None
        return self.work.shape.limited.name

    def _partition(self, node_id: int) -> int:
        """Return a partition that the broker leads, if it leads any."""
        assert self.work.shape.limited is not None
        count = self.work.shape.limited.partitions
        led = [index for index in range(count) if self.book.leads(node_id, self._topic, index)]
        return self.chance.choice(led or range(count))


class Mutator(Client):
    """Creates and deletes topics of its own, in versions in which what is too much is refused."""

    def __init__(self, work: Work, book: QuotaBook, runtime: SimRuntime, name: str) -> None:
        super().__init__(work, runtime, name)
        self.book = book
        self.line = Line(work, book, runtime, name, MUTATOR)

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        await self.line.use(self, self._ask_once)

    async def _ask_once(self, connection: Connection, node_id: int, life: Life) -> QuotaKey:
        name = f"{MUTATOR}-{self.chance.randrange(TOPICS)}"
        epoch = self.book.epoch
        count = self.book.partitions_of(node_id, name)
        if count:
            delete = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
            response, sent_s, received_s = await self.line.ask(
                connection, delete, DELETE_VERSION, node_id, life
            )
            code = response.responses[0].error_code
        else:
            count = self.chance.randint(1, PARTITIONS_MAX)
            topic = CreatableTopic(name=name, num_partitions=count, replication_factor=-1)
            create = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
            response, sent_s, received_s = await self.line.ask(
                connection, create, CREATE_VERSION, node_id, life
            )
            code = response.topics[0].error_code
        if code == ErrorCode.NONE:
            self.book.changed(MUTATOR, epoch, Served(sent_s, received_s, count))
        elif code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self.book.throttled += 1
        return QuotaKey.CONTROLLER_MUTATION_RATE


class Connector(Client):
    """Connects again and again; what it counts is being served."""

    def __init__(self, work: Work, book: QuotaBook, runtime: SimRuntime, name: str) -> None:
        super().__init__(work, runtime, name)
        self.book = book
        self.line = Line(work, book, runtime, name, GREEDY)

    def goes_on(self) -> bool:
        return self.work.writing

    async def live(self) -> None:
        key = QuotaKey.CONNECTION_CREATION_RATE
        node = self.chance.choice(self.work.shape.brokers)
        until = self.lifetime()
        while self.work.writing and self.work.now() < until:
            self.book.look()
            sent_s = self.work.now()
            connection = await self.line.open(node.host)
            life = self.book.life_of(node.id)
            connection.close()
            if life is None:
                return
            self.book.look()
            served = Served(sent_s, self.work.now(), 1)
            self.book.answered(life, self.line.client_id, key, served, 0)
            self.work.did(self.name)
            await self.line.pause(life, key)
