"""Replicas on three brokers over real sockets: they copy, part, come back and agree."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from replicated import (
    ask,
    bytes_of,
    create,
    followers_of,
    isr,
    leader_of,
    node,
    produce,
    replica,
    until,
)

from ottla import Admin, ConfigResource, KafkaError, Producer, ResourceType, TopicPartition
from ottla.broker.replication.partition import Partition
from ottla.broker.storage.dirs.meta_properties import read_meta_properties, write_meta_properties
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.uuids import random_uuid
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.runtime.os_disk import OsDisk
from ottla.testing import AsyncCluster, async_cluster

Test = Callable[[AsyncCluster], Awaitable[None]]


def with_cluster(test: Test, **options: Any) -> None:
    async def main() -> None:
        async with async_cluster(3, **options) as cluster:
            await test(cluster)

    asyncio.run(main())


async def in_sync(cluster: AsyncCluster, *numbers: int) -> None:
    """All logs are the same, and all of them committed."""
    leader = replica(cluster, leader_of(cluster))
    assert leader.log is not None
    for other in [replica(cluster, number) for number in numbers]:
        await until(partial(agree, leader, other))
        assert bytes_of(other) == bytes_of(leader)
        assert other.log is not None
        assert other.log.epochs.entries == leader.log.epochs.entries


def agree(leader: Partition, other: Partition) -> bool:
    assert leader.log is not None
    end_offset = leader.log.end_offset
    marks = {leader.high_watermark, other.high_watermark}
    return other.log is not None and {other.log.end_offset, *marks} == {end_offset}


def test_followers_have_what_is_acknowledged_byte_for_byte() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 500)
        await in_sync(cluster, *followers_of(cluster))

    with_cluster(test)


def test_nothing_acknowledged_is_lost_with_its_leader_and_it_comes_back_as_a_follower() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, min_insync_replicas="2")
        await produce(cluster, 0, 100)
        dead = leader_of(cluster)
        await cluster.kill(dead)
        await until(lambda: cluster.leader_of("t") not in (None, dead))
        await produce(cluster, 100, 100)
        await cluster.start(dead)
        await until(lambda: len(isr(cluster)) == 3)
        await in_sync(cluster, 1, 2, 3)
        log = replica(cluster, leader_of(cluster)).log
        assert log is not None
        assert log.end_offset == 200

    with_cluster(test)


def test_a_follower_that_lost_its_folder_copies_everything_anew() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 300)
        lost = followers_of(cluster)[0]
        folder = Path(cluster.nodes[lost].folder)
        await cluster.stop(lost)
        shutil.rmtree(folder / "t-0")
        await cluster.start(lost)
        await until(lambda: len(isr(cluster)) == 3)
        await in_sync(cluster, lost)

    with_cluster(test)


def replace_disk(folder: Path) -> None:
    """By an empty one, formatted for the same node."""
    known = read_meta_properties(OsDisk(), str(folder))
    assert known is not None
    shutil.rmtree(folder)
    OsDisk().make_dirs(str(folder))
    write_meta_properties(
        OsDisk(), str(folder), known._replace(directory_id=random_uuid(Random(1)))
    )


@pytest.mark.parametrize("was", ["leader", "follower"])
def test_a_broker_whose_disk_was_replaced_is_filled_again(was: str) -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 300)
        lost = leader_of(cluster) if was == "leader" else followers_of(cluster)[0]
        folder = Path(cluster.nodes[lost].folder)
        await cluster.kill(lost)
        await until(lambda: cluster.leader_of("t") not in (None, lost))
        replace_disk(folder)
        await cluster.start(lost)
        await until(lambda: len(isr(cluster)) == 3)
        await produce(cluster, 300, 10)
        await in_sync(cluster, lost)
        await cluster.restart(lost)
        await until(lambda: len(isr(cluster)) == 3)

    with_cluster(test)


def test_a_lost_disk_is_told_in_one_line_with_a_count_and_a_few_names(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, partitions=20)
        await cluster.wait_in_sync()
        lost = followers_of(cluster)[0]
        await cluster.kill(lost)
        await until(lambda: lost not in isr(cluster))
        replace_disk(Path(cluster.nodes[lost].folder))
        caplog.clear()
        await cluster.start(lost)
        await until(lambda: all(len(isr(cluster, "t", index)) == 3 for index in range(20)))

    with_cluster(test)
    told = [record for record in caplog.records if record.name == "ottla.replication"]
    assert [record.message for record in told] == ["replicas whose disk is gone are copied anew"]
    fields = vars(told[0])["fields"]
    assert fields["count"] == 20
    names = fields["partitions"].split(", ")
    assert len({name for name in names if name.startswith("t-")}) == 5
    assert names[-1] == "..."


def test_records_that_only_the_old_leader_has_are_cut_when_it_comes_back() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, min_insync_replicas="2")
        await produce(cluster, 0, 20)
        old = leader_of(cluster)
        others = followers_of(cluster)
        for number in others:
            cluster.pause(number)
        async with Producer(bootstrap_servers=cluster.nodes[old].address, acks=1) as producer:
            try:
                async with asyncio.timeout(5):
                    # The first answers the fetches that wait: it is on its way to the others.
                    for value in (b"on its way", b"only here"):
                        await (await producer.send("t", value=value))
            except (TimeoutError, KafkaError):
                pytest.skip("the leader was fenced before it could take a record alone")
        await cluster.kill(old)
        for number in others:
            cluster.resume(number)
        await until(lambda: cluster.leader_of("t") in others)
        await produce(cluster, 20, 20)
        await cluster.start(old)
        await until(lambda: len(isr(cluster)) == 3)
        await in_sync(cluster, *others, old)
        assert b"only here" not in bytes_of(replica(cluster, old))

    with_cluster(test, settings={"broker.session.timeout.ms": "3000"})


def test_with_too_few_in_sync_acks_all_is_refused_and_nothing_more_is_shown() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, replicas=2, min_insync_replicas="2")
        await produce(cluster, 0, 10)
        leader, (follower,) = leader_of(cluster), followers_of(cluster)
        await cluster.kill(follower)
        await until(lambda: isr(cluster) == {leader})
        response = await ask(cluster, leader, produce_request(cluster, acks=-1), 12)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        response = await ask(cluster, leader, produce_request(cluster, acks=1), 12)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert replica(cluster, leader).high_watermark == 10
        await cluster.start(follower)
        await until(lambda: isr(cluster) == {leader, follower})
        await until(lambda: replica(cluster, leader).high_watermark == 11)

    with_cluster(test)


def produce_request(cluster: AsyncCluster, acks: int) -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"x", ())])
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[topic])


def test_a_producer_at_the_wrong_broker_is_told_the_leader_and_its_address() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        leader, follower = leader_of(cluster), followers_of(cluster)[0]
        response = await ask(cluster, follower, produce_request(cluster, acks=-1), 12)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == leader
        (endpoint,) = response.node_endpoints
        assert f"{endpoint.host}:{endpoint.port}" == cluster.nodes[leader].address

    with_cluster(test)


def test_deleted_records_are_gone_from_all_replicas_when_the_deletion_is_answered() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 50)
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            deleted = await admin.delete_records({TopicPartition("t", 0): 30})
        assert deleted == {TopicPartition("t", 0): 30}
        for number in (1, 2, 3):
            assert replica(cluster, number).log_start_offset == 30

    with_cluster(test)


def test_a_follower_behind_the_start_of_its_leaders_log_begins_where_that_begins() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 10)
        behind = followers_of(cluster)[0]
        await cluster.kill(behind)
        await until(lambda: behind not in isr(cluster))
        await produce(cluster, 10, 90)
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.delete_records({TopicPartition("t", 0): 55})
        await cluster.start(behind)
        await until(lambda: behind in isr(cluster))
        log = replica(cluster, behind).log
        assert log is not None
        assert (log.log_start_offset, log.end_offset) == (55, 100)

    with_cluster(test)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_served_there() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        await produce(cluster, 0, 10)
        leader, near = leader_of(cluster), followers_of(cluster)[0]
        await in_sync(cluster, near)
        there = await ask(cluster, leader, fetch_request(cluster, rack=f"rack{near}"), 17)
        answer = there.responses[0].partitions[0]
        assert (answer.preferred_read_replica, answer.records or b"") == (near, b"")
        here = await ask(cluster, near, fetch_request(cluster, rack=f"rack{near}"), 17)
        answer = here.responses[0].partitions[0]
        assert (answer.error_code, answer.high_watermark) == (0, 10)
        assert bytes(answer.records) == bytes_of(replica(cluster, near))
        home = await ask(cluster, leader, fetch_request(cluster, rack=f"rack{leader}"), 17)
        assert bytes(home.responses[0].partitions[0].records)

    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with_cluster(
        test,
        settings={"replica.selector.class": selector},
        node_settings={number: {"broker.rack": f"rack{number}"} for number in (1, 2, 3)},
    )


def fetch_request(cluster: AsyncCluster, rack: str = "", **fields: Any) -> FetchRequest:
    topic_id = replica(cluster, leader_of(cluster)).topic_id
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        rack_id=rack,
        **fields,
    )


def test_a_fetch_from_an_earlier_life_of_a_follower_does_not_count() -> None:
    async def test(cluster: AsyncCluster) -> None:
        await create(cluster)
        leader, follower = leader_of(cluster), followers_of(cluster)[0]
        broker = node(cluster, leader).metadata.image.brokers[follower]
        state = ReplicaState(replica_id=follower, replica_epoch=broker.epoch - 1)
        response = await ask(cluster, leader, fetch_request(cluster, replica_state=state), 17)
        answer = response.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        stranger = ReplicaState(replica_id=77, replica_epoch=1)
        response = await ask(cluster, leader, fetch_request(cluster, replica_state=stranger), 17)
        answer = response.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    with_cluster(test)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_catches_up_at_its_rate_and_no_faster(side: str) -> None:
    rate = 400_000

    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, **{f"{side}_replication_throttled_replicas": "*"})  # type: ignore[arg-type]
        behind = followers_of(cluster)[0]
        await cluster.kill(behind)
        await until(lambda: behind not in isr(cluster))
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            for _ in range(150):
                await producer.send("t", value=bytes(10_000))
            await producer.flush()
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            everywhere = ConfigResource(ResourceType.BROKER, "")
            await admin.alter_config(everywhere, {f"{side}.replication.throttled.rate": str(rate)})
        # A dead node is fenced sooner than it has fallen behind by replica.lag.time.max.ms.
        await asyncio.sleep(0.6)
        clock = asyncio.get_running_loop().time
        begun = clock()
        await cluster.start(behind)
        await until(lambda: behind in isr(cluster))
        # 1.5 MB, of which the first second's and one fetch more may come at once.
        assert clock() - begun > 2.0

    small = {
        "replication.quota.window.num": "2",
        "replica.fetch.response.max.bytes": "100000",
        "replica.lag.time.max.ms": "500",  # who keeps up is not throttled
    }
    with_cluster(test, settings=small)


def test_a_replica_that_the_high_watermark_waits_for_is_not_throttled() -> None:
    """One that was in sync a moment ago counts until replica.lag.time.max.ms have passed."""

    async def test(cluster: AsyncCluster) -> None:
        await create(cluster, leader_replication_throttled_replicas="*")
        behind = followers_of(cluster)[0]
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            everywhere = ConfigResource(ResourceType.BROKER, "")
            # The windows have room for 100 kB: what is sent at first fills them for ten seconds.
            await admin.alter_config(everywhere, {"leader.replication.throttled.rate": "10000"})
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            await (await producer.send("t", value=bytes(800_000)))
            await cluster.stop(behind)
            await until(lambda: behind not in isr(cluster))
            await (await producer.send("t", value=bytes(100_000)))
            await cluster.start(behind)
            async with asyncio.timeout(3):
                await (await producer.send("t", value=b"not held up"))
                await until(lambda: behind in isr(cluster))

    with_cluster(test)
