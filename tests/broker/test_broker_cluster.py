"""Nodes that make a cluster: started together, used through any of them, stopped and paused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import confluent_kafka
import pytest
from broker_nodes import BOTH, Cluster, until, with_cluster
from confluent_kafka import admin as confluent_admin

from ottla import Admin, ConfigResource, Consumer, NewTopic, Producer, ResourceType
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.peers.peers import PeerError
from ottla.broker.server.contract import BROKERS, CONTROLLERS, served_on
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def test_three_nodes_form_a_cluster_and_know_each_other(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        assert cluster.active.controller is not None
        for image in cluster.images:
            await until(lambda image=image: brokers(image()) == {1: False, 2: False, 3: False})
            await until(lambda image=image: image().controllers.keys() == {1, 2, 3})
        leaders = {node.metadata.leader_id for node in cluster.nodes.values()}
        assert leaders == {cluster.active.node_id}

    with_cluster(tmp_path, test)


def brokers(image: MetadataImage) -> dict[int, bool]:
    """Whether they are fenced."""
    return {broker.id: broker.fenced for broker in image.brokers.values()}


@pytest.mark.parametrize("roles", [(BOTH,) * 3, ("controller",) * 3 + ("broker",) * 3])
def test_a_topic_is_created_through_any_broker_and_known_to_all(
    tmp_path: Path, roles: tuple[str, ...]
) -> None:
    ids = [node_id for node_id, role in enumerate(roles, 1) if "broker" in role]

    async def test(cluster: Cluster) -> None:
        for node_id in ids:
            name = f"by-{node_id}"
            async with Admin(bootstrap_servers=cluster.address(node_id)) as admin:
                await admin.create_topics([NewTopic(name, partitions=3, replication_factor=3)])
            for image in cluster.images:
                await until(lambda image=image, name=name: name in image().topics)
                partitions = image().topics[name].partitions.values()
                assert all(sorted(partition.replicas) == ids for partition in partitions)
                assert {partition.leader for partition in partitions} == set(ids)

    with_cluster(tmp_path, test, roles)


def test_a_topic_is_known_to_the_broker_that_was_asked_for_it(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        follower = cluster.follower
        for number in range(20):
            topic = CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
            answer = await cluster.peers.post(*follower.addresses[0], request, timeout_ms=5_000)
            assert answer.topics[0].error_code == 0
            assert topic.name in follower.metadata.image.topics
        trial = CreateTopicsRequest(
            topics=[CreatableTopic(name="trial", num_partitions=1, replication_factor=1)],
            timeout_ms=5_000,
            validate_only=True,
        )
        async with asyncio.timeout(1.5):
            await cluster.peers.post(*follower.addresses[0], trial, timeout_ms=5_000)

    with_cluster(tmp_path, test)


@pytest.mark.parametrize("roles", [(BOTH,) * 3, ("controller",) + ("broker",) * 3])
def test_records_go_in_by_one_broker_and_come_out_by_another(
    tmp_path: Path, roles: tuple[str, ...]
) -> None:
    first, second, third = (node_id for node_id, role in enumerate(roles, 1) if "broker" in role)

    async def test(cluster: Cluster) -> None:
        async with Admin(bootstrap_servers=cluster.address(first)) as admin:
            await admin.create_topics([NewTopic("t", partitions=3, replication_factor=3)])
        async with Producer(bootstrap_servers=cluster.address(second), acks="all") as producer:
            sent = [await producer.send("t", value=b"%d" % n) for n in range(300)]
            await producer.flush()
            assert all([(await one).offset >= 0 for one in sent])
        consumer = Consumer(
            "t",
            bootstrap_servers=cluster.address(third),
            group_id="readers",
            auto_offset_reset="earliest",
        )
        async with consumer:
            seen = {(await anext(consumer)).value for _ in range(300)}
        assert seen == {b"%d" % n for n in range(300)}

    with_cluster(tmp_path, test, roles)


def test_an_unmodified_client_creates_writes_and_reads(tmp_path: Path) -> None:
    def use(bootstrap: str) -> set[bytes]:
        topic = confluent_admin.NewTopic("t", num_partitions=3, replication_factor=3)
        admin = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([topic])["t"].result(10)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True}
        )
        for n in range(100):
            producer.produce("t", value=str(n))
        assert producer.flush(20) == 0
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        seen: set[bytes] = set()
        while len(seen) < 100:
            for message in consumer.consume(100, timeout=1):
                assert message.error() is None
                seen.add(message.value())
        consumer.close()
        return seen

    async def test(cluster: Cluster) -> None:
        seen = await asyncio.to_thread(use, cluster.bootstrap)
        assert seen == {b"%d" % n for n in range(100)}

    with_cluster(tmp_path, test)


def test_a_topic_is_made_by_a_client_that_asks_for_it_and_the_answer_has_it(
    tmp_path: Path,
) -> None:
    async def test(cluster: Cluster) -> None:
        for node_id, node in cluster.nodes.items():
            host, port = node.addresses[0]
            name = f"auto-{node_id}"
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
            )
            answer = await cluster.peers.post(host, port, request, timeout_ms=10_000)
            (topic,) = answer.topics
            assert (topic.name, topic.error_code) == (name, 0)
            assert len(topic.partitions[0].replica_nodes) == 3
            assert answer.controller_id == node_id  # any will do, and this one is there
            assert len(answer.brokers) == 3

    with_cluster(tmp_path, test)


def test_settings_are_changed_through_any_broker_and_taken_by_all(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        follower = cluster.follower
        async with Admin(bootstrap_servers=cluster.address(follower.node_id)) as admin:
            everyone = ConfigResource(ResourceType.BROKER, "")
            one = ConfigResource(ResourceType.BROKER, str(follower.node_id))
            await admin.alter_config(everyone, {"message.max.bytes": "5000"})
            await admin.alter_config(one, {"message.max.bytes": "6000"})
        for node in cluster.nodes.values():
            expected = 6000 if node is follower else 5000
            await until(
                lambda node=node, expected=expected: node.config["message.max.bytes"] == expected
            )

    with_cluster(tmp_path, test)


def test_a_broker_takes_settings_of_its_own_only(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        other = cluster.active.node_id
        host, port = cluster.follower.addresses[0]
        change = AlterableConfig(name="message.max.bytes", value="1")
        resource = AlterConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(other), configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await cluster.peers.post(host, port, request, timeout_ms=5_000)
        assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
        assert "Unexpected broker id" in answer.responses[0].error_message

    with_cluster(tmp_path, test)


def test_each_listener_tells_and_serves_the_apis_of_its_kind(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = cluster.nodes[1]
        (controller,) = node.controller_endpoints
        for address, kind in ((node.addresses[0], BROKERS), (controller[1:3], CONTROLLERS)):
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            answer = await cluster.peers.post(*address, request, timeout_ms=5_000)
            assert {told.api_key for told in answer.api_keys} == served_on(kind)
        with pytest.raises(PeerError) as caught:
            await cluster.peers.post(*node.addresses[0], BrokerHeartbeatRequest(), timeout_ms=5_000)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION

    with_cluster(tmp_path, test)


def test_a_controller_tells_of_the_controllers_and_a_broker_of_the_brokers(
    tmp_path: Path,
) -> None:
    async def test(cluster: Cluster) -> None:
        node = cluster.follower
        (controller,) = node.controller_endpoints
        await until(lambda: node.metadata.image.controllers.keys() == {1, 2, 3})
        of_controllers = DescribeClusterRequest(endpoint_type=2)
        told = await cluster.peers.post(*controller[1:3], of_controllers, timeout_ms=5_000)
        ports = {n.node_id: n.controller_endpoints[0].port for n in cluster.nodes.values()}
        assert {one.broker_id: one.port for one in told.brokers} == ports
        assert told.controller_id == cluster.active.node_id
        wrong = await cluster.peers.post(*node.addresses[0], of_controllers, timeout_ms=5_000)
        assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        right = await cluster.peers.post(
            *node.addresses[0], DescribeClusterRequest(), timeout_ms=5_000
        )
        assert {one.broker_id for one in right.brokers} == {1, 2, 3}

    with_cluster(tmp_path, test)


def test_clients_that_use_up_all_connections_do_not_cut_controllers_off(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = cluster.follower
        (controller,) = node.controller_endpoints
        crowd = [await asyncio.open_connection(*node.addresses[0]) for _ in range(30)]
        request = DescribeClusterRequest(endpoint_type=2)
        for lane in ("one", "two"):
            await cluster.peers.post(*controller[1:3], request, timeout_ms=5_000, lane=lane)
        for _, writer in crowd:
            writer.close()

    with_cluster(tmp_path, test, max_connections="25")
