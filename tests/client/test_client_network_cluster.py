"""Ways to brokers: found, kept, shared, given up and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from scripted_broker import ScriptedBroker, negotiating
from scripted_cluster import ScriptedCluster

from fault_proxy import FaultProxy
from ottla.client.errors import IllegalState, NoBrokerReachable, Unreachable
from ottla.client.network.backoff import may_pass
from ottla.client.network.cluster import Cluster
from ottla.client.network.finding import CoordinatorType
from ottla.client.settings.common import ClientSettings
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.runtime.os_runtime import OsRuntime, run

GROUP, TRANSACTION = CoordinatorType.GROUP, CoordinatorType.TRANSACTION
Work = Callable[[Cluster, ScriptedCluster], Awaitable[None]]


def with_cluster(
    work: Work,
    count: int = 1,
    *,
    versions: dict[int, tuple[int, int]] | None = None,
    bootstrap: str | None = None,
    **options: Any,
) -> None:
    async def main(runtime: OsRuntime) -> None:
        async with ScriptedCluster(count, versions=versions) as script:
            settings = ClientSettings(bootstrap_servers=bootstrap or script.bootstrap, **options)
            cluster = Cluster.of(settings, runtime)
            try:
                async with asyncio.timeout(20):
                    await work(cluster, script)
            finally:
                cluster.close()

    run(main)


async def closed_port() -> int:
    async with ScriptedBroker(negotiating(lambda *_: asyncio.sleep(0))) as (_, port):
        return port


# Any broker


def test_a_sequence_of_addresses_is_as_good_as_commas() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        places = [f"{host}:{port}" for host, port in script.places.values()]
        for servers in (places, ",".join(places)):
            other = Cluster.of(ClientSettings(bootstrap_servers=servers), cluster.runtime)
            await other.refresh(())
            assert other.view.brokers.keys() == {1, 2}
            other.close()

    with_cluster(work, 2)


def test_one_bootstrap_address_that_is_down_does_no_harm() -> None:
    async def work(_: Cluster, script: ScriptedCluster) -> None:
        servers = f"127.0.0.1:{await closed_port()},{script.bootstrap}"
        cluster = Cluster.of(ClientSettings(bootstrap_servers=servers), _.runtime)
        await cluster.refresh(())
        cluster.close()

    with_cluster(work)


def test_a_bootstrap_address_that_is_a_black_hole_is_not_waited_for() -> None:
    async def work(_: Cluster, script: ScriptedCluster) -> None:
        with FaultProxy() as black_hole:
            servers = f"{black_hole.address},{script.bootstrap}"
            cluster = Cluster.of(ClientSettings(bootstrap_servers=servers), _.runtime)
            async with asyncio.timeout(5):
                await cluster.refresh(())
            cluster.close()

    with_cluster(work)


def test_when_no_address_answers_each_is_named() -> None:
    async def main(runtime: OsRuntime) -> None:
        ports = [await closed_port(), await closed_port()]
        servers = [f"127.0.0.1:{port}" for port in ports]
        cluster = Cluster.of(
            ClientSettings(bootstrap_servers=[*servers, "no-such-host.invalid"]), runtime
        )
        with pytest.raises(NoBrokerReachable) as caught:
            await cluster.any_broker()
        for server in servers:
            assert f"{server}: connection refused" in str(caught.value)
        assert "no-such-host.invalid:9092: Name or service not known" in str(caught.value)
        cluster.close()

    run(main)


def test_many_who_ask_at_once_share_one_connection() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        found = await asyncio.gather(*(cluster.any_broker() for _ in range(20)))
        assert len({id(one) for one in found}) == 1
        await cluster.refresh(())
        found = await asyncio.gather(*(cluster.broker(1) for _ in range(20)))
        assert len({id(one) for one in found}) == 1
        assert cluster.metrics.snapshot()["connection-creation-total"] == 2

    with_cluster(work)


def test_a_caller_who_gives_up_leaves_the_connection_to_the_others() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        await cluster.refresh(())
        one = asyncio.create_task(cluster.broker(1))
        other = asyncio.create_task(cluster.broker(1))
        await asyncio.sleep(0)
        one.cancel()
        assert not (await other).closed

    with_cluster(work)


def test_metadata_is_asked_of_the_connection_with_the_fewest_open_requests() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        await cluster.refresh(())
        busy, free = await cluster.broker(1), await cluster.broker(2)
        seed = await cluster.any_broker()
        seed.close()

        async def never(node_id: int, header: Any, request: Any, writer: Any) -> bool:
            return header.api_key == ApiKey.DESCRIBE_CLUSTER

        script.hook = never
        busy.post(DescribeClusterRequest())
        assert await cluster.any_broker() in (free, seed)

    with_cluster(work, 2)


def test_long_polls_and_coordinators_have_connections_of_their_own() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.coordinators["g"] = 1
        await cluster.refresh(())
        main = await cluster.broker(1)
        fetch = await cluster.broker_for_fetching(1)
        coordinator = await cluster.coordinator(GROUP, "g")
        assert len({id(main), id(fetch), id(coordinator)}) == 3
        assert cluster.open_connection(1) is main
        assert cluster.open_connection(1, "fetch") is fetch
        assert cluster.open_connection(1, "coordinator") is coordinator
        assert await cluster.any_broker() not in (fetch, coordinator)
        fetch.close()
        assert cluster.open_connection(1, "fetch") is None
        assert await cluster.broker_for_fetching(1) is not fetch

    with_cluster(work)


def test_a_broker_that_nobody_knows_is_an_error_that_may_pass() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        with pytest.raises(KafkaError, match="no live broker 9") as caught:
            await cluster.broker(9)
        assert caught.value.code.retriable

    with_cluster(work)


# Trying again


def test_a_broker_that_is_down_is_tried_at_growing_pauses() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.places[2] = ("127.0.0.1", await closed_port())
        await cluster.refresh(())
        loop = asyncio.get_running_loop()
        moments = [loop.time()]
        for _ in range(4):
            with pytest.raises(Unreachable):
                await cluster.broker(2)
            moments.append(loop.time())
        pauses = [later - earlier for earlier, later in pairwise(moments)]
        for pause, least in zip(pauses, (0, 0.035, 0.07, 0.11), strict=True):
            assert pause >= least

    with_cluster(work, reconnect_backoff_ms=50, reconnect_backoff_max_ms=160)


def test_when_all_known_brokers_are_gone_the_first_list_is_asked_again() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        await cluster.refresh(())
        here = script.places[1]
        script.places[1] = ("127.0.0.1", await closed_port())
        await cluster.refresh(())  # all that is known of the cluster is an address that is dead
        (await cluster.any_broker()).close()
        script.places[1] = here
        await cluster.refresh(())
        assert cluster.view.brokers[1].port == here[1]

    with_cluster(work)


def test_without_rebootstrap_the_first_list_is_not_asked_again() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.places[1] = ("127.0.0.1", await closed_port())
        await cluster.refresh(())
        (await cluster.any_broker()).close()
        for _ in range(3):
            with pytest.raises(NoBrokerReachable) as caught:
                await cluster.any_broker()
            assert may_pass(caught.value), "the broker may come back"

    with_cluster(work, metadata_recovery_strategy="none")


def test_brokers_that_give_no_metadata_for_long_are_forgotten() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1])
        await cluster.refresh(())
        stuck = await cluster.broker(1)

        async def refuse(node_id: int, header: Any, request: Any, writer: Any) -> bool:
            if header.api_key == ApiKey.METADATA:
                writer.close()
            return header.api_key == ApiKey.METADATA

        script.hook = refuse
        forgotten = asyncio.Event()
        cluster.metadata.on_change(lambda view: None if view.brokers else forgotten.set())
        cluster.metadata.watch(["t"])
        await forgotten.wait()
        assert cluster.open_connection(1) is None
        assert stuck.closed

    with_cluster(work, metadata_recovery_rebootstrap_trigger_ms=100, retry_backoff_ms=20)


# Idle connections, closing


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        await cluster.refresh(())
        idle, waiting = await cluster.broker(1), await cluster.broker_for_fetching(1)

        async def slow(node_id: int, header: Any, request: Any, writer: Any) -> bool:
            await asyncio.sleep(0.5)
            return False

        script.hook = slow
        response = await waiting.request(DescribeClusterRequest())
        assert response.cluster_id == "scripted"
        assert idle.closed
        assert not waiting.closed
        counted = cluster.metrics.snapshot()
        assert counted["connection-count"] == 1
        assert counted["connection-close-total"] == 2

    with_cluster(work, connections_max_idle_ms=150)


def test_a_closed_client_says_so_at_once_and_to_those_who_wait() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        with FaultProxy() as black_hole:
            cluster = Cluster.of(
                ClientSettings(bootstrap_servers=black_hole.address), cluster.runtime
            )
            waiting = asyncio.create_task(cluster.retrying(cluster.any_broker))
            await asyncio.sleep(0.05)
            cluster.close()
            with pytest.raises(IllegalState, match="this client is closed"):
                await waiting
            with pytest.raises(IllegalState, match="this client is closed"):
                await cluster.any_broker()

    with_cluster(work)


# Coordinators


@pytest.mark.parametrize("newest", [0, 3, 6])
def test_coordinators_are_found_in_every_version_and_remembered(newest: int) -> None:
    versions = {key: api.versions for key, api in APIS.items()}
    versions[ApiKey.FIND_COORDINATOR] = (0, newest)

    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.coordinators |= {"g": 1, "h": 2}
        assert (await cluster.coordinator(GROUP, "g")).address == script.places[1]
        assert (await cluster.coordinator(GROUP, "h")).address == script.places[2]
        before = script.count(ApiKey.FIND_COORDINATOR)
        await cluster.coordinator(GROUP, "g")
        assert script.count(ApiKey.FIND_COORDINATOR) == before
        found = await cluster.find_coordinators(GROUP, ["g", "h", "nobody"])
        assert [getattr(one, "node_id", None) for one in found.values()] == [1, 2, None]

    with_cluster(work, 2, versions=versions)


def test_a_group_and_a_transactional_id_of_one_name_are_two_things() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.coordinators["x"] = 1
        await cluster.coordinator(GROUP, "x")
        script.coordinators["x"] = 2
        assert (await cluster.coordinator(TRANSACTION, "x")).address == script.places[2]
        assert (await cluster.coordinator(GROUP, "x")).address == script.places[1]
        kinds = [request.key_type for _, api, request in script.asked if "FIND" in api.name]
        assert kinds == [GROUP, TRANSACTION]

    with_cluster(work, 2)


def test_a_coordinator_that_moved_is_found_after_it_was_forgotten() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.coordinators["g"] = 1
        await cluster.coordinator(GROUP, "g")
        script.coordinators["g"] = 2
        cluster.forget_coordinator(GROUP, "g")
        assert (await cluster.coordinator(GROUP, "g")).address == script.places[2]

    with_cluster(work, 2)


def test_a_coordinator_that_cannot_be_reached_is_sought_anew() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        here = script.places[2]
        script.places[2] = ("127.0.0.1", await closed_port())
        script.coordinators["g"] = 2
        with pytest.raises(Unreachable):
            await cluster.coordinator(GROUP, "g")
        script.places[2] = here
        assert (await cluster.coordinator(GROUP, "g")).address == here

    with_cluster(work, 2)


def test_without_a_coordinator_there_is_an_error_that_may_pass() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        with pytest.raises(KafkaError) as caught:
            await cluster.coordinator(GROUP, "g")
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert caught.value.code.retriable

    with_cluster(work)
