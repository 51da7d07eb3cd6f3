"""Groups and transactions of a cluster: everything led elsewhere, and coordinators that move."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.blocking import Admin as OttlaAdmin
from ottla.blocking import Producer as OttlaProducer
from ottla.broker.coordinator.hashing import partition_of
from ottla.client.network.cluster import Cluster as ClientCluster
from ottla.client.settings.common import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.runtime.os_runtime import OsRuntime, run

pytestmark = pytest.mark.ottla_only

INTERNAL_PARTITIONS = 4
WAIT_S = 30
STUCK_S = 10
SUCCESSORS_MAX = 6
COPIED = 1200
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ottla.testing.cluster(nodes=3) as running:
        yield running


def create(cluster: Any, *topics: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [NewTopic(topic, partitions, 3) for topic in topics]
    for done in admin.create_topics(wanted).values():
        done.result(WAIT_S)


def until(holds: Callable[[], bool], within_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def warm_up(cluster: Any) -> None:
    """Have the internal topics created."""
    producer = transactional(cluster, "warm-up")
    producer.begin_transaction()
    producer.abort_transaction()
    reader = consumer(cluster, "warm-up")
    reader.committed([TopicPartition("input", 0)], WAIT_S)
    reader.close()
    until(lambda: all(cluster.leader_of(topic) is not None for topic in (GROUPS, TRANSACTIONS)))


def coordinated_by(cluster: Any, node: int, topic: str) -> str:
    """A group or transactional id whose coordinator is this node.

    A busy machine may have fenced a node, which then leads nothing: preferred leaders are elected.
    """
    names = {
        partition_of(name, INTERNAL_PARTITIONS): name for name in map("id-{}".format, range(99))
    }
    with OttlaAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        deadline = time.monotonic() + WAIT_S
        while True:
            led = [index for index in names if cluster.leader_of(topic, index) == node]
            if led:
                return names[led[0]]
            assert time.monotonic() < deadline, f"node {node} leads nothing of {topic}"
            admin.elect_leaders()
            time.sleep(0.1)


def transactional(cluster: Any, name: str, **more: Any) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "log_level": 0,
            **more,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


def consumer(cluster: Any, group: str, **more: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "max.poll.interval.ms": 6000,
            "log_level": 0,
            **more,
        }
    )


def fill(cluster: Any, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 3)
    assert producer.flush(WAIT_S) == 0


def values_of(records: list[Message]) -> list[bytes]:
    return [record.value() or b"" for record in records if record.error() is None]


def read_all(cluster: Any, topic: str, count: int) -> Counter[str]:
    """Committed records until `count` were seen, and whatever comes right after them."""
    reader = consumer(cluster, f"check-{time.monotonic_ns()}")
    reader.assign([TopicPartition(topic, index, 0) for index in range(3)])
    seen: Counter[str] = Counter()
    deadline = time.monotonic() + WAIT_S
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        if seen.total() >= count and time.monotonic() - quiet_since > 0.5:
            break
        values = values_of(reader.consume(1000, 0.1))
        seen.update(value.decode() for value in values)
        if values:
            quiet_since = time.monotonic()
    reader.close()
    return seen


class Copier(threading.Thread):
    """Copies `input` to `output`, some records a transaction, and commits its offsets with them."""

    def __init__(self, cluster: Any, name: str, group: str) -> None:
        super().__init__(daemon=True)
        self._cluster, self._name, self._group = cluster, name, group
        self.copied = 0
        self.errors: list[str] = []
        self.stop_asked = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop_asked:
                self._copy_until_broken()
        except BaseException as failure:
            self.failure = failure

    def _copy_until_broken(self) -> None:
        """A new pair of clients after every error that only a new one gets over."""
        reader = consumer(self._cluster, self._group)
        try:
            producer = transactional(self._cluster, self._name)
            reader.subscribe(["input"])
            while not self.stop_asked:
                self._copy_some(reader, producer)
        except KafkaException as error:
            self.errors.append(str(error))
        finally:
            reader.close()

    def _copy_some(self, reader: Consumer, producer: Producer) -> None:
        records = [one for one in reader.consume(20, 0.05) if one.error() is None]
        if not records:
            return
        producer.begin_transaction()
        try:
            for record in records:
                producer.produce("output", record.value(), partition=record.partition() or 0)
            offsets = reader.position(reader.assignment())
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), WAIT_S)
            producer.commit_transaction(WAIT_S)
            self.copied += len(records)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(WAIT_S)
            raise

    def finish(self) -> None:
        self.stop_asked = True
        self.join(WAIT_S)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


class Copiers:
    """One at a time. One that is stuck gets a successor of the same name, which fences it.

    librdkafka 2.16 may wait for a coordinator of the group that has left the cluster until some
    broker comes or goes (its issue 5511). Its consumer beside it still sends heartbeats, and the
    group waits for it as long as `max.poll.interval.ms` says.
    """

    def __init__(self, cluster: Any, name: str, group: str) -> None:
        self._new = lambda: Copier(cluster, name, group)
        self._all: list[Copier] = []
        self._succeed()

    def _succeed(self) -> None:
        for one in self._all:
            one.stop_asked = True
        self._all.append(self._new())
        self._all[-1].start()

    @property
    def copied(self) -> int:
        return sum(one.copied for one in self._all)

    @property
    def errors(self) -> list[str]:
        return list(chain.from_iterable(one.errors for one in self._all))

    def wait_for(self, count: int) -> None:
        seen, deadline = self.copied, time.monotonic() + STUCK_S
        while self.copied < count and self._all[-1].failure is None:
            if self.copied > seen:
                seen, deadline = self.copied, time.monotonic() + STUCK_S
            if time.monotonic() > deadline:
                assert len(self._all) < SUCCESSORS_MAX, f"stuck at {seen} records: {self.errors}"
                self._succeed()
                deadline = time.monotonic() + STUCK_S
            time.sleep(0.02)

    def finish(self) -> None:
        self._all[-1].finish()


def test_a_transaction_spans_brokers_that_lead_everything_apart(cluster: Any) -> None:
    """Its coordinator, its group's coordinator and its partitions are each on another node."""
    create(cluster, "input", "output")
    warm_up(cluster)
    for node in cluster.nodes:
        others = [other for other in cluster.nodes if other != node]
        name = coordinated_by(cluster, node, TRANSACTIONS)
        group = coordinated_by(cluster, others[0], GROUPS)
        producer, reader = transactional(cluster, name), consumer(cluster, group)
        for outcome in ("commit", "abort"):
            producer.begin_transaction()
            for partition in range(3):
                producer.produce("output", f"{outcome}-{node}", partition=partition)
            offsets = [TopicPartition("input", 0, 7 if outcome == "commit" else 9)]
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), WAIT_S)
            if outcome == "commit":
                producer.commit_transaction(WAIT_S)
            else:
                producer.abort_transaction(WAIT_S)
        (committed,) = reader.committed([TopicPartition("input", 0)], WAIT_S)
        assert committed.offset == 7
        reader.close()
    assert read_all(cluster, "output", 9) == Counter({f"commit-{n}": 3 for n in cluster.nodes})


def test_producers_of_both_protocols_write_through_any_coordinator(cluster: Any) -> None:
    create(cluster, "output")
    warm_up(cluster)
    for node in cluster.nodes:
        name = coordinated_by(cluster, node, TRANSACTIONS)
        with OttlaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=name
        ) as producer:
            producer.init_transactions()
            for number in range(5):
                with producer.transaction():
                    for partition in range(3):
                        producer.send("output", f"{node}-{number}".encode(), partition=partition)
    seen = read_all(cluster, "output", 45)
    assert seen == Counter({f"{n}-{k}": 3 for n in cluster.nodes for k in range(5)})


def hold_questions(cluster: Any, delay_s: float) -> None:
    """Each question of a node to a transaction's coordinator leaves it late, as if many waited."""

    def hold(node: Any) -> None:
        inquiries = node.broker.services.coordinators.transactions._inquiries
        put = inquiries.put
        inquiries.put = lambda *question: node.runtime.call_later(delay_s, put, *question)

    nodes = [hosted.node for hosted in cluster._group._nodes.values()]
    cluster._thread.look(lambda: [hold(node) for node in nodes])


def test_markers_of_the_last_transaction_that_overtake_a_question_cost_no_error(
    cluster: Any,
) -> None:
    """The next transaction is begun at once. Its first batch makes a leader note that it asks, the
    markers come and void the note, and only then the coordinator is asked and agrees."""
    create(cluster, "output")
    warm_up(cluster)
    hold_questions(cluster, 0.03)
    name = coordinated_by(cluster, 1, TRANSACTIONS)
    with OttlaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=name
    ) as producer:
        producer.init_transactions()
        for number in range(6):
            with producer.transaction():
                for partition in range(3):
                    producer.send("output", str(number).encode(), partition=partition)
    assert read_all(cluster, "output", 18) == Counter({str(n): 3 for n in range(6)})


def test_offsets_that_come_after_the_end_of_their_transaction_do_not_slip_into_the_next(
    cluster: Any,
) -> None:
    """Protocol 1 keeps the epoch: what tells the transactions apart is the marker between them."""
    create(cluster, "input")
    warm_up(cluster)
    name = coordinated_by(cluster, 1, TRANSACTIONS)
    group = coordinated_by(cluster, 2, GROUPS)
    hold_questions(cluster, 1.0)

    async def story(runtime: OsRuntime) -> None:
        settings = ClientSettings(bootstrap_servers=cluster.bootstrap_servers)
        async with ClientCluster.of(settings, runtime) as clients:
            await clients.topic("input")
            coordinator, home = await clients.broker(1), await clients.broker(2)
            ready = await coordinator.request(
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            )
            who = {"producer_id": ready.producer_id, "producer_epoch": ready.producer_epoch}
            adding = AddOffsetsToTxnRequest(transactional_id=name, group_id=group, **who)
            late = TxnOffsetCommitRequest(
                transactional_id=name, group_id=group, topics=[offsets("input", 0, 7)], **who
            )
            ending = EndTxnRequest(transactional_id=name, committed=False, **who)
            assert (await coordinator.request(adding, version=3)).error_code == 0
            committing = asyncio.ensure_future(home.request(late, version=3))
            await asyncio.sleep(0.2)
            assert (await coordinator.request(ending, version=3)).error_code == 0
            while (await coordinator.request(adding, version=3)).error_code:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            (topic,) = (await committing).topics
            assert topic.partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ending.committed = True
            assert (await coordinator.request(ending, version=3)).error_code == 0

    run(story)
    reader = consumer(cluster, group)
    (committed,) = reader.committed([TopicPartition("input", 0)], WAIT_S)
    reader.close()
    assert committed.offset < 0


def offsets(topic: str, partition: int, offset: int) -> TxnOffsetCommitRequestTopic:
    one = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    return TxnOffsetCommitRequestTopic(name=topic, partitions=[one])


def test_every_replica_tells_of_the_open_transactions_of_a_partition(cluster: Any) -> None:
    """As in Kafka: `kafka-transactions.sh find-hanging --broker-id` asks for all that it has."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("pair", 1, 2)])["pair"].result(WAIT_S)
    producer = transactional(cluster, "open")
    producer.begin_transaction()
    producer.produce("pair", b"open", partition=0)
    assert producer.flush(WAIT_S) == 0
    image = admin.list_topics("pair", WAIT_S).topics["pair"].partitions[0]

    async def describe(runtime: OsRuntime) -> dict[int, tuple[int, list[int]]]:
        wanted = TopicRequest(name="pair", partition_indexes=[0])
        found = {}
        settings = ClientSettings(bootstrap_servers=cluster.bootstrap_servers)
        async with ClientCluster.of(settings, runtime) as clients:
            await clients.topic("pair")
            for node in cluster.nodes:
                connection = await clients.broker(node)
                answer = await connection.request(DescribeProducersRequest(topics=[wanted]))
                partition = answer.topics[0].partitions[0]
                starts = [one.current_txn_start_offset for one in partition.active_producers]
                found[node] = (partition.error_code, starts)
        return found

    expected = {
        node: (0, [0]) if node in image.replicas else (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
        for node in cluster.nodes
    }
    until(lambda: run(describe) == expected)
    producer.abort_transaction(WAIT_S)


@pytest.mark.parametrize("victim", ["group coordinator", "transaction coordinator"])
def test_a_copy_goes_on_exactly_once_when_a_coordinator_dies(cluster: Any, victim: str) -> None:
    create(cluster, "input", "output")
    fill(cluster, "input", COPIED)
    warm_up(cluster)
    transactions_node, groups_node, _ = cluster.nodes
    name = coordinated_by(cluster, transactions_node, TRANSACTIONS)
    group = coordinated_by(cluster, groups_node, GROUPS)
    copiers = Copiers(cluster, name, group)
    copiers.wait_for(200)
    dead = groups_node if victim == "group coordinator" else transactions_node
    cluster.kill(dead)
    copiers.wait_for(copiers.copied + 200)
    cluster.start(dead)
    cluster.wait_in_sync()
    copiers.wait_for(COPIED)
    copiers.finish()
    assert len(copiers.errors) < 10, copiers.errors
    assert read_all(cluster, "output", COPIED) == Counter({str(n): 1 for n in range(COPIED)})


async def copy_with_ottla(servers: str, progress: list[int], enough: int) -> None:
    async with (
        ottla.Producer(bootstrap_servers=servers, transactional_id="copier") as producer,
        ottla.Consumer(
            "input",
            bootstrap_servers=servers,
            group_id="copiers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as reader,
    ):
        await producer.init_transactions()
        while sum(progress) < enough:
            records = await reader.poll(200, max_records=20)
            if not records:
                continue
            async with producer.transaction():
                for record in chain.from_iterable(records.values()):
                    await producer.send("output", record.value, partition=record.partition)
                ends = {where: some[-1].offset + 1 for where, some in records.items()}
                await producer.send_offsets_to_transaction(ends, reader.group_metadata())
            progress.append(sum(map(len, records.values())))


def test_a_rolling_restart_costs_a_copy_no_error_and_no_record(cluster: Any) -> None:
    """With our own clients, which speak the second protocol of transactions."""
    create(cluster, "input", "output")
    fill(cluster, "input", 1500)
    warm_up(cluster)
    progress: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        work = copy_with_ottla(cluster.bootstrap_servers, progress, 1500)
        copying = pool.submit(asyncio.run, work)
        for node in cluster.nodes:
            before = sum(progress)
            until(lambda: sum(progress) > before + 100 or copying.done())  # noqa: B023
            cluster.restart(node)
            cluster.wait_in_sync()
        copying.result(WAIT_S)
    assert read_all(cluster, "output", 1500) == Counter({str(n): 1 for n in range(1500)})


def test_members_of_a_group_follow_their_coordinator(cluster: Any) -> None:
    create(cluster, "input")
    fill(cluster, "input", 300)
    warm_up(cluster)
    node = next(iter(cluster.nodes))
    group = coordinated_by(cluster, node, GROUPS)
    reader = consumer(cluster, group, **{"enable.auto.commit": False})
    reader.subscribe(["input"])
    seen: list[bytes] = []

    def read(count: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while len(seen) < count:
            assert time.monotonic() < deadline, f"{len(seen)} of {count}"
            seen.extend(values_of(reader.consume(50, 0.2)))

    read(300)
    reader.commit(asynchronous=False)
    cluster.stop(node)  # controlled: its partitions move before it goes
    fill(cluster, "input", 300)
    read(600)
    committed = reader.commit(asynchronous=False)
    assert sum(one.offset for one in committed) == 600
    reader.close()
    check = consumer(cluster, group)
    places = [TopicPartition("input", index) for index in range(3)]
    assert sum(one.offset for one in check.committed(places, WAIT_S)) == 600
    check.close()
