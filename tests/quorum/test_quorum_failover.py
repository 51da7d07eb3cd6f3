"""Three controllers: one decides, all follow, and what was acknowledged outlives who decided it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

import pytest
from quorum_world import PORT, QuorumWorld, host, topic

from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import MetadataImage
from ottla.cli.nodes.folder import FAIL_OVER
from ottla.protocol.errors import ErrorCode, KafkaError


def noting(names: list[str]) -> Callable[[MetadataDelta, MetadataImage], None]:
    """A subscriber that writes down which topics were created."""

    def subscriber(delta: MetadataDelta, _: MetadataImage) -> None:
        names.extend(created.name for created in delta.created.values())

    return subscriber


@pytest.mark.parametrize("seed", range(3))
def test_one_is_elected_and_all_get_what_it_decides(seed: int) -> None:
    quorum = QuorumWorld(seed)

    async def story() -> None:
        await quorum.start_all()
        leader = await quorum.elected()
        told: dict[int, list[str]] = {i: [] for i in quorum.ids}
        for node_id, node in quorum.nodes.items():
            node.metadata.subscribe(noting(told[node_id]))
        for number in range(10):
            await quorum.write(number)
        image = await quorum.agreed()
        assert len(image.topics) == 10
        assert all(names == [f"topic-{n}" for n in range(10)] for names in told.values())
        for node in quorum.nodes.values():
            assert node.metadata.leader_id == leader
            assert node.metadata.leader_endpoint() == (host(leader), PORT)

    quorum.run(story)


def test_who_does_not_lead_refuses_to_decide() -> None:
    quorum = QuorumWorld(1)

    async def story() -> None:
        await quorum.start_all()
        leader = await quorum.elected()
        other = next(i for i in quorum.ids if i != leader)
        with pytest.raises(KafkaError) as refused:
            await quorum.on(other, lambda log: log.append([topic(1)]))
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    quorum.run(story)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("power_loss", [True, False])
def test_another_one_takes_over_when_the_leader_dies(seed: int, power_loss: bool) -> None:
    quorum = QuorumWorld(seed)

    async def story() -> None:
        await quorum.start_all()
        first = await quorum.elected()
        for number in range(5):
            await quorum.write(number)
        quorum.crash(first, power_loss=power_loss)
        second = await quorum.elected(within_s=10)
        assert second != first
        assert len(quorum.nodes[second].metadata.image.topics) == 5
        for number in range(5, 10):
            await quorum.write(number)
        await quorum.start(first)
        image = await quorum.agreed()
        assert len(image.topics) == 10

    quorum.run(story)


@pytest.mark.parametrize("seed", range(5))
def test_what_a_leader_without_a_majority_decides_never_happened(seed: int) -> None:
    quorum = QuorumWorld(seed)

    async def story() -> None:
        await quorum.start_all()
        first = await quorum.elected()
        await quorum.write(0)
        changes: list[bool] = []
        quorum.nodes[first].metadata.on_leadership(lambda active, epoch: changes.append(active))
        quorum.cut_off(first)
        lost = quorum.on(first, lambda log: log.append([topic(99)]))
        others = [i for i in quorum.ids if i != first]
        await quorum.elected(among=others, within_s=20)
        await quorum.write(1)
        with pytest.raises(KafkaError) as refused:
            await lost
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        log = quorum.nodes[first].metadata
        assert "topic-99" not in log.pending.topics
        assert changes[:2] == [True, False]
        quorum.world.network.heal()
        image = await quorum.agreed()
        assert set(image.topics) == {"topic-0", "topic-1"}

    quorum.run(story)


def test_a_leader_that_stops_hands_over_at_once() -> None:
    quorum = QuorumWorld(7)

    async def story() -> None:
        await quorum.start_all()
        first = await quorum.elected()
        await quorum.write(1)
        await quorum.agreed()
        began = quorum.world.loop.time()
        await quorum.stop(first)
        await quorum.elected()
        await quorum.write(2)
        assert quorum.world.loop.time() - began < 0.5

    quorum.run(story)


def test_all_of_them_start_again_with_what_they_had() -> None:
    quorum = QuorumWorld(3)

    async def story() -> None:
        await quorum.start_all()
        for number in range(5):
            await quorum.write(number)
        await quorum.agreed()
        for node_id in quorum.ids:
            quorum.crash(node_id)
        await quorum.start_all()
        await quorum.elected()
        for node in quorum.nodes.values():
            await quorum.on(node.node_id, lambda log: log.caught_up())
            assert len(node.metadata.image.topics) == 5

    quorum.run(story)


def test_a_node_of_another_cluster_is_told_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quorum = QuorumWorld(0)

    async def story() -> None:
        await quorum.start(1)
        await quorum.start(2)
        await quorum.elected()
        monkeypatch.setattr("quorum_world.CLUSTER_ID", "another-cluster-id-abc")
        await quorum.start(3)
        await asyncio.sleep(5)

    quorum.run(story)
    lines = [r.getMessage() for r in caplog.records if "belongs to another cluster" in r.msg]
    said_by_3 = [line for line in lines if "another-cluster-id-abc" in line]
    assert 1 <= len(said_by_3) <= 2, "once for each controller"
    assert f"{host(1)}:{PORT}" in said_by_3[0] or f"{host(2)}:{PORT}" in said_by_3[0]
    assert "ottla storage info" in said_by_3[0]


# What the logs say


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_the_loss_of_a_leader_is_a_warning_with_who_and_for_how_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quorum = QuorumWorld(3)

    async def story() -> None:
        await quorum.start_all()
        first = await quorum.elected()
        assert warnings(caplog) == []
        quorum.crash(first)
        second = await quorum.elected(within_s=10)
        assert warnings(caplog)[0].startswith(
            f"the leader of the metadata log, node {first}, has not answered for 2"
        )
        after = rf"node {second} leads .* in epoch \d+, after [2-9]\.\d s without a leader"
        assert re.search(after, "\n".join(warnings(caplog)))

    quorum.run(story)


def test_a_leader_whose_majority_is_gone_says_so_and_that_nobody_leads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quorum = QuorumWorld(4)

    async def story() -> None:
        await quorum.start_all()
        leader = await quorum.elected()
        for other in quorum.ids:
            if other != leader:
                quorum.crash(other)
        await asyncio.sleep(10)
        told = "\n".join(warnings(caplog))
        assert "no majority of the controllers has fetched from this node" in told
        assert f"node {leader} was the last one" in told

    quorum.run(story)


def test_a_leader_that_is_stopped_hands_over_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quorum = QuorumWorld(5)

    async def story() -> None:
        await quorum.start_all()
        first = await quorum.elected()
        await quorum.stop(first)
        assert await quorum.elected(within_s=5) != first
        assert warnings(caplog) == []

    quorum.run(story)


def test_the_settings_of_nodes_on_one_machine_survive_a_hiccup_and_notice_a_death() -> None:
    quorum = QuorumWorld(6, settings=FAIL_OVER)

    async def story() -> None:
        await quorum.start_all()
        first = await quorum.elected()
        await asyncio.sleep(2)
        epoch = quorum.nodes[first].metadata.epoch
        quorum.cut_off(first)
        await asyncio.sleep(1.2)
        quorum.world.network.heal()
        await asyncio.sleep(3)
        assert quorum.leader() == first
        assert quorum.nodes[first].metadata.epoch == epoch
        quorum.crash(first, power_loss=False)
        second = await quorum.elected(within_s=1)
        assert second != first

    quorum.run(story)
