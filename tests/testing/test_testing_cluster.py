"""Clusters inside a test, as users of `ottla.testing` see them."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.testing.nodes import NodeDown

pytestmark = pytest.mark.ottla_only

pytest_plugins = ["pytester"]


def send(servers: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def read(servers: str, topic: str, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += [one.value().decode() for one in consumer.consume(count, 0.5) if not one.error()]
    consumer.close()
    return found


def test_a_single_node_serves_clients_and_leaves_nothing_behind() -> None:
    threads = set(threading.enumerate())
    with ottla.testing.cluster(nodes=1) as cluster:
        folder = Path(cluster.nodes[1].folder)
        send(cluster.bootstrap_servers, "t", "a", "b")
        assert read(cluster.bootstrap_servers, "t", 2) == ["a", "b"]
        assert folder.is_dir()
    assert not folder.parent.exists()
    assert set(threading.enumerate()) == threads


def test_a_killed_node_comes_back_with_its_records_on_its_port() -> None:
    with ottla.testing.cluster(nodes=1) as cluster:
        before = cluster.nodes[1].address
        send(cluster.bootstrap_servers, "t", "a")
        cluster.kill(1)
        assert cluster.nodes[1].state == "stopped"
        assert not (Path(cluster.nodes[1].folder) / ".kafka_cleanshutdown").exists()
        cluster.start(1)
        assert cluster.nodes[1].address == before
        assert read(cluster.bootstrap_servers, "t", 1) == ["a"]


def test_a_stopped_node_has_ended_cleanly() -> None:
    with ottla.testing.cluster(nodes=1) as cluster:
        cluster.stop(1)
        assert (Path(cluster.nodes[1].folder) / ".kafka_cleanshutdown").exists()
        cluster.start(1)


def test_a_paused_node_is_silent_and_goes_on_where_it_was() -> None:
    with ottla.testing.cluster(nodes=1) as cluster:
        send(cluster.bootstrap_servers, "t", "a")
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        cluster.pause(1)
        assert cluster.nodes[1].state == "paused"
        producer.produce("t", "b")
        used = time.process_time()
        assert producer.flush(0.7) == 1
        assert time.process_time() - used < 0.5, "the loop spins while a node is paused"
        cluster.resume(1)
        assert producer.flush(10) == 0
        assert read(cluster.bootstrap_servers, "t", 2) == ["a", "b"]


def test_settings_reach_the_nodes() -> None:
    with ottla.testing.cluster(nodes=1, settings={"num.partitions": "7"}) as cluster:
        send(cluster.bootstrap_servers, "t", "a")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert len(admin.list_topics("t", timeout=10).topics["t"].partitions) == 7


def test_a_folder_that_is_given_is_kept(tmp_path: Path) -> None:
    with ottla.testing.cluster(nodes=1, folder=str(tmp_path)) as cluster:
        send(cluster.bootstrap_servers, "t", "a")
    with ottla.testing.cluster(nodes=1, folder=str(tmp_path)) as cluster:
        assert read(cluster.bootstrap_servers, "t", 1) == ["a"]


def test_mistakes_are_told() -> None:
    with pytest.raises(ValueError, match="1 to 100 nodes, not 0"), ottla.testing.cluster(nodes=0):
        pass
    with ottla.testing.cluster(nodes=1) as cluster:
        with pytest.raises(ValueError, match="there is no node 2"):
            cluster.kill(2)
        with pytest.raises(NodeDown, match="node 1 is running"):
            cluster.start(1)
        cluster.kill(1)
        with pytest.raises(NodeDown, match="node 1 is not running"):
            cluster.pause(1)
    with pytest.raises(RuntimeError, match="the cluster is closed"):
        cluster.wait_ready()


def test_a_cluster_for_await() -> None:
    async def story() -> None:
        async with ottla.testing.async_cluster(nodes=1) as cluster:
            async with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send("t", b"a")
                await producer.flush()
            await cluster.kill(1)
            await cluster.start(1)
            await cluster.wait_ready()
            assert cluster.leader_of("t") == 1

    asyncio.run(story())


def test_pytest_has_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_broker(ottla_broker):
            assert len(ottla_broker.nodes) == 1

        @pytest.mark.ottla_cluster(nodes=1, settings={"num.partitions": "2"})
        def test_cluster(ottla_cluster):
            ottla_cluster.kill(1)
            ottla_cluster.start(1)
        """
    )
    outcome = pytester.runpytest_subprocess(
        "-p", "ottla.testing.plugin", "--strict-markers", timeout=60
    )
    outcome.assert_outcomes(passed=2)


def test_the_plugin_costs_a_test_run_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test(): assert 'ottla.node' not in sys.modules")
    pytester.runpytest_subprocess("-p", "ottla.testing.plugin").assert_outcomes(passed=1)


# Three nodes


def topic_with_copies(servers: str, name: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(20)


def test_three_nodes_are_ready_in_under_a_second() -> None:
    with ottla.testing.cluster(nodes=1):
        pass  # what is imported first is not what is measured
    taken = []
    for _ in range(3):
        began = time.monotonic()
        with ottla.testing.cluster(nodes=3) as cluster:
            taken.append(time.monotonic() - began)
            assert cluster.controller in (1, 2, 3)
            assert len(cluster.bootstrap_servers.split(",")) == 3
    assert min(taken) < 1.0, taken


@pytest.mark.parametrize("act", ["kill", "stop"])
def test_a_lost_leader_is_replaced_and_comes_back_in_sync(act: str) -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        servers = cluster.bootstrap_servers
        topic_with_copies(servers, "t", 1)
        send(servers, "t", "a")
        leader = cluster.leader_of("t")
        assert leader is not None
        getattr(cluster, act)(leader)
        send(servers, "t", "b")
        assert cluster.leader_of("t") not in (leader, None)
        cluster.start(leader)
        cluster.wait_in_sync()
        assert read(servers, "t", 2) == ["a", "b"]


def test_a_lost_controller_is_replaced() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        controller = cluster.controller
        assert controller is not None
        cluster.kill(controller)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 3, 2)])["t"].result(20)
        assert cluster.controller != controller
        cluster.start(controller)
        cluster.wait_ready()


def test_a_paused_leader_finds_itself_replaced() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        servers = cluster.bootstrap_servers
        topic_with_copies(servers, "t", 1)
        send(servers, "t", "a")
        leader = cluster.leader_of("t")
        assert leader is not None
        cluster.pause(leader)
        deadline = time.monotonic() + 15
        while cluster.leader_of("t") == leader and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cluster.leader_of("t") != leader
        cluster.resume(leader)
        cluster.wait_in_sync()
        send(servers, "t", "b")
        assert read(servers, "t", 2) == ["a", "b"]


def test_a_broker_can_be_added() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        assert cluster.add_node({"broker.rack": "d"}) == 4
        cluster.wait_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        made = NewTopic("t", 1, replica_assignment=[[4]])
        admin.create_topics([made])["t"].result(20)
        send(cluster.bootstrap_servers, "t", "a")
        assert cluster.leader_of("t") == 4


def test_a_whole_cluster_is_killed_and_started_again() -> None:
    with ottla.testing.cluster(nodes=3, settings={"num.partitions": 2}) as cluster:
        send(cluster.bootstrap_servers, "t", "a", "b")
        for node in (1, 2, 3):
            cluster.kill(node)
        cluster.start(1, 2, 3)
        assert sorted(read(cluster.bootstrap_servers, "t", 2)) == ["a", "b"]
