"""What a client knows of its cluster: how answers are merged, and when it asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from scripted_cluster import ScriptedCluster

from ottla.client.network.cluster import Cluster
from ottla.client.network.metadata import Broker, ClusterView, Partition, Topic
from ottla.client.settings.common import ClientSettings
from ottla.client.values import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.runtime.os_runtime import OsRuntime, run

ONE, TWO = Broker(1, "a", 1), Broker(2, "b", 2)
T0 = TopicPartition("t", 0)


def topic(*leaders: tuple[int, int], number: int = 1, error_code: int = 0) -> Topic:
    """A topic from (leader, epoch) of each partition."""
    partitions = tuple(
        Partition(index, leader, epoch, (1, 2), (1, 2), ())
        for index, (leader, epoch) in enumerate(leaders)
    )
    return Topic("t", number.to_bytes(16, "big"), False, partitions, error_code)


def view(*topics: Topic) -> ClusterView:
    return ClusterView("c", 1, {1: ONE, 2: TWO}, {one.name: one for one in topics})


# Merging


def test_an_older_epoch_does_not_bring_back_a_deposed_leader() -> None:
    merged = view(topic((2, 5), (1, 3))).merged(view(topic((1, 4), (2, 4))), complete=False)
    partitions = merged.topics["t"].partitions
    assert [(one.leader, one.leader_epoch) for one in partitions] == [(2, 5), (2, 4)]


def test_a_topic_that_was_made_anew_begins_with_any_epoch() -> None:
    merged = view(topic((2, 5))).merged(view(topic((1, 0), number=2)), complete=False)
    assert merged.topics["t"].partitions[0].leader == 1


def test_a_broker_without_epochs_is_believed() -> None:
    merged = view(topic((2, 5))).merged(view(topic((1, -1))), complete=False)
    assert merged.topics["t"].partitions[0].leader == 1


def test_partitions_that_were_added_are_not_lost_to_a_broker_that_lags_behind() -> None:
    merged = view(topic((1, 0), (1, 0), (2, 0))).merged(view(topic((1, 0))), complete=False)
    assert len(merged.topics["t"].partitions) == 3


def test_a_topic_that_is_gone_is_so() -> None:
    gone = topic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    merged = view(topic((1, 0))).merged(view(gone), complete=False)
    assert merged.topics["t"].partitions == ()
    assert view(topic((1, 0))).merged(view(), complete=True).topics == {}
    assert "t" in view(topic((1, 0))).merged(view(), complete=False).topics


def test_a_hint_names_a_newer_leader_and_where_it_is() -> None:
    three = Broker(3, "c", 3)
    changed = view(topic((1, 4))).with_leader(T0, 3, 5, [three])
    assert changed.partition(T0) == Partition(0, 3, 5, (1, 2), (1, 2), ())
    assert changed.brokers[3] == three


@pytest.mark.parametrize(
    ("where", "leader", "epoch"),
    [(T0, 2, 4), (T0, 2, 3), (T0, 9, 5), (TopicPartition("t", 7), 2, 5)],
    ids=["same epoch", "older epoch", "unknown broker", "unknown partition"],
)
def test_a_hint_that_is_no_news_changes_nothing(
    where: TopicPartition, leader: int, epoch: int
) -> None:
    before = view(topic((1, 4)))
    assert before.with_leader(where, leader, epoch, []) is before


# Asking


def with_cluster(
    work: Callable[[Cluster, ScriptedCluster], Awaitable[None]], count: int = 1, **options: Any
) -> None:
    async def main(runtime: OsRuntime) -> None:
        async with ScriptedCluster(count) as script:
            settings = ClientSettings(
                bootstrap_servers=script.bootstrap, **{"retry_backoff_ms": 20, **options}
            )
            cluster = Cluster.of(settings, runtime)
            try:
                async with asyncio.timeout(20):
                    await work(cluster, script)
            finally:
                cluster.close()

    run(main)


async def seen(cluster: Cluster, is_so: Callable[[ClusterView], bool]) -> None:
    """Return when a view fits."""
    fits = asyncio.Event()

    def look(found: ClusterView) -> None:
        if is_so(found):
            fits.set()

    undo = cluster.metadata.on_change(look)
    look(cluster.view)
    await fits.wait()
    undo()


def test_a_watched_topic_comes_without_being_waited_for() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1, 1])
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        assert len(cluster.view.topics["t"].partitions) == 2

    with_cluster(work)


def test_watched_topics_are_refreshed_when_they_are_old() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1], epoch=1)
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        script.topic("t", [2], epoch=2)
        await seen(cluster, lambda view: view.topics["t"].partitions[0].leader == 2)

    with_cluster(work, 2, metadata_max_age_ms=50)


def test_many_wishes_for_a_refresh_make_one_request() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1])
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        before = script.count(ApiKey.METADATA)
        for _ in range(100):
            cluster.metadata.request_refresh()
            await asyncio.sleep(0)
        await asyncio.sleep(0.4)
        assert 1 <= script.count(ApiKey.METADATA) - before <= 2

    with_cluster(work, retry_backoff_ms=100)


def test_a_new_topic_is_asked_for_alone() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1])
        script.topic("u", [1])
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        cluster.metadata.watch(["t", "u"])
        await seen(cluster, lambda view: "u" in view.topics)
        asked = [request for _, api, request in script.asked if api is ApiKey.METADATA]
        assert [one.name for one in asked[-1].topics] == ["u"]
        assert cluster.view.topics.keys() == {"t", "u"}

    with_cluster(work)


def test_a_topic_that_is_missing_is_reported_and_asked_for_until_it_is_there() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        cluster.metadata.watch(["t"])
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await seen(cluster, lambda view: "t" in view.topics)
        assert cluster.view.topics["t"].error_code == missing
        assert cluster.metadata.failure is None
        script.topic("t", [1])
        await seen(cluster, lambda view: view.topics["t"].error_code == 0)
        await asyncio.sleep(0.1)
        settled = script.count(ApiKey.METADATA)
        await asyncio.sleep(0.2)
        assert script.count(ApiKey.METADATA) == settled

    with_cluster(work)


def test_a_partition_without_leader_is_asked_for_until_it_has_one() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [-1], epoch=1)
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        script.topic("t", [1], epoch=2)
        await seen(cluster, lambda view: view.topics["t"].partitions[0].leader == 1)

    with_cluster(work)


def test_listeners_see_a_topic_deleted_and_made_anew() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1], epoch=7)
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        before = cluster.view.topics["t"].topic_id
        script.topic("t", [1], epoch=0, number=2)
        cluster.metadata.request_refresh()
        await seen(cluster, lambda view: view.topics["t"].topic_id != before)
        assert cluster.view.topics["t"].partitions[0].leader_epoch == 0

    with_cluster(work)


def test_all_topics_are_watched_and_those_that_vanish_are_dropped() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1])
        script.topic("u", [1])
        cluster.metadata.watch_all()
        await seen(cluster, lambda view: view.topics.keys() == {"t", "u"})
        del script.topics["t"]
        cluster.metadata.request_refresh()
        await seen(cluster, lambda view: view.topics.keys() == {"u"})

    with_cluster(work)


def test_an_unwatched_topic_is_forgotten_even_if_it_was_just_asked_for() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1])
        script.topic("u", [1])
        cluster.metadata.watch(["t", "u"])
        await asyncio.sleep(0)
        cluster.metadata.unwatch(["u"])
        await seen(cluster, lambda view: "t" in view.topics)
        await asyncio.sleep(0.05)
        assert cluster.view.topics.keys() == {"t"}

    with_cluster(work)


def test_topics_are_created_only_where_that_was_asked_for() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1])
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        script.topic("u", [1])
        cluster.metadata.watch(["u"], create_missing=True)
        await seen(cluster, lambda view: "u" in view.topics)
        asked = [request for _, api, request in script.asked if api is ApiKey.METADATA]
        assert not any(one.allow_auto_topic_creation for one in asked)
        # One that is missing is looked for first: a consumer tells that it did not exist.
        cluster.metadata.watch(["v"], create_missing=True)
        await seen(cluster, lambda view: "v" in view.topics)
        script.topic("v", [1])
        await seen(cluster, lambda view: not view.topics["v"].error_code)
        asked = [request for _, api, request in script.asked if api is ApiKey.METADATA]
        creating = [one for one in asked if one.allow_auto_topic_creation]
        assert creating
        assert all([t.name for t in one.topics] == ["v"] for one in creating)

    with_cluster(work)


def test_a_listener_that_raises_does_not_stop_the_others() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        def broken(_: ClusterView) -> None:
            raise RuntimeError("broken")

        cluster.metadata.on_change(broken)
        script.topic("t", [1])
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)

    with_cluster(work)


def test_hints_take_effect_without_a_request() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        script.topic("t", [1], epoch=1)
        cluster.metadata.watch(["t"])
        await seen(cluster, lambda view: "t" in view.topics)
        before = script.count(ApiKey.METADATA)
        told: list[int] = []
        cluster.metadata.on_change(lambda view: told.append(view.topics["t"].partitions[0].leader))
        host, port = script.places[2]
        cluster.metadata.leader_changed(T0, 2, 2, [Broker(2, host, port)])
        assert told == [2]
        assert (await cluster.broker(2)).address == (host, port)
        assert script.count(ApiKey.METADATA) == before

    with_cluster(work, 2)


def test_a_broker_that_has_moved_is_asked_where_it_is_now() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        await cluster.refresh(())
        old = await cluster.broker(1)
        script.places[1] = script.places[2]
        await cluster.refresh(())
        assert (await cluster.broker(1)).address == script.places[2]
        assert old.closed

    with_cluster(work, 2)


def test_a_broker_that_asks_to_bootstrap_again_is_obeyed() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        await cluster.refresh(())
        refusals = iter([True])

        async def hook(node_id: int, header: Any, request: Any, writer: Any) -> bool:
            if header.api_key != ApiKey.METADATA or not next(refusals, False):
                return False
            response = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            script.brokers[node_id].send(writer, header, response)
            return True

        script.hook = hook
        before = await cluster.any_broker()
        await cluster.refresh(())
        assert cluster.view.brokers.keys() == {1}
        assert before.closed

    with_cluster(work)


def test_a_failing_refresh_goes_on_at_growing_pauses_and_tells_why() -> None:
    async def work(cluster: Cluster, script: ScriptedCluster) -> None:
        async def hang_up(node_id: int, header: Any, request: Any, writer: Any) -> bool:
            writer.close()
            return True

        script.hook = hang_up
        script.topic("t", [1])
        cluster.metadata.watch(["t"])
        await asyncio.sleep(0.5)
        assert "the broker closed it" in str(cluster.metadata.failure)
        assert 2 <= script.count(ApiKey.METADATA) <= 6
        script.hook = None
        await seen(cluster, lambda view: "t" in view.topics)
        assert cluster.metadata.failure is None

    with_cluster(work, retry_backoff_ms=50)
