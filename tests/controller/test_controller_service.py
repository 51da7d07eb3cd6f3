"""The controller on a real metadata log: sessions that end, brokers that leave, duties by time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from controller_cases import folder, registration, topic

from ottla.broker.controller.alter_configs import ConfigChange, KeyChange, Operation
from ottla.broker.controller.controller import Controller
from ottla.broker.metadata.features import ELR_VERSION_FEATURE
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.metadata.resources import CLUSTER_DEFAULT, ResourceType
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreateTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.runtime.os_runtime import OsRuntime, run

SESSION_MS = 300


class Stage:
    def __init__(self, runtime: OsRuntime, metadata: MetadataLog, controller: Controller) -> None:
        self.runtime = runtime
        self.metadata = metadata
        self.controller = controller

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    async def start(self, *brokers: int) -> None:
        for broker in brokers:
            await self.controller.register_broker(registration(broker))
            assert not (await self.beat(broker)).is_fenced

    async def beat(self, broker: int, **wishes: bool) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.image.brokers[broker].epoch,
            current_metadata_offset=self.image.offset,
            **wishes,
        )
        return await self.controller.heartbeat(request)

    async def create(self, *replicas: int, **configs: str) -> None:
        wanted = topic("t", -1, -1, **configs)
        wanted.assignments = [
            CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        ]
        response = await self.controller.create_topics(CreateTopicsRequest(topics=[wanted]))
        assert response.topics[0].error_code == 0

    async def reassign(self, replicas: list[int] | None) -> None:
        moved = ReassignablePartition(partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[moved])]
        )
        response = await self.controller.alter_partition_reassignments(request)
        assert response.responses[0].partitions[0].error_code == 0

    async def until(self, holds: Callable[[MetadataImage], bool], limit_s: float = 10.0) -> None:
        changed = asyncio.Event()
        self.metadata.subscribe(lambda delta, image: changed.set())
        async with asyncio.timeout(limit_s):
            while not holds(self.image):
                changed.clear()
                await changed.wait()


def play(folder_: Path, story: Callable[[Stage], Awaitable[None]], **settings: str) -> None:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    config = BrokerConfig.parse(
        {"node.id": "1", "broker.session.timeout.ms": str(SESSION_MS), **given}
    )

    async def main(runtime: OsRuntime) -> None:
        metadata = await MetadataLog.open(
            runtime,
            str(folder_),
            node_id=1,
            cluster_id="test",
            config=config,
            clean=False,
            on_failure=lambda error: pytest.fail(f"the metadata log failed: {error!r}"),
        )
        controller = Controller(metadata, config, runtime)
        await story(Stage(runtime, metadata, controller))
        controller.close()
        await metadata.close()

    run(main)


def partition(image: MetadataImage) -> tuple[int, tuple[int, ...]]:
    found = image.topics["t"].partitions[0]
    return found.leader, found.isr


def test_who_is_silent_is_fenced_and_others_lead(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(1, 2, 3)
        await stage.create(2, 3)

        async def beat() -> None:
            while True:
                await stage.beat(3)
                await asyncio.sleep(SESSION_MS / 5000)

        beating = asyncio.ensure_future(beat())
        await stage.until(lambda image: image.brokers[2].fenced)
        assert partition(stage.image) == (3, (3,))
        assert not stage.image.brokers[3].fenced
        # The one that lives with the only controller needs no heartbeats.
        assert not stage.image.brokers[1].fenced
        assert not (await stage.beat(2)).is_fenced
        assert partition(stage.image) == (3, (3,))
        beating.cancel()

    play(tmp_path, story)


def test_a_broker_leaves_when_all_others_know_that_it_does(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3)
        await stage.create(2, 3)
        first = await stage.beat(2, want_shut_down=True)
        assert not first.should_shut_down
        assert partition(stage.image) == (3, (3,))
        assert not (await stage.beat(2, want_shut_down=True)).should_shut_down
        await stage.beat(3)
        assert (await stage.beat(2, want_shut_down=True)).should_shut_down
        assert stage.image.brokers[2].fenced

    play(tmp_path, story, broker_session_timeout_ms="9000")


def test_replicas_in_sync_are_removed_once_those_that_stay_are_heard_of(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3, 4)
        await stage.create(2, 3, 4)
        moving = asyncio.ensure_future(stage.reassign([2, 3]))
        await asyncio.sleep(0.01)
        await stage.beat(2)
        await asyncio.sleep(0.01)
        assert not moving.done()
        assert stage.image.topics["t"].partitions[0].replicas == (2, 3, 4)
        await stage.beat(3)
        await moving
        assert stage.image.topics["t"].partitions[0].replicas == (2, 3)

    play(tmp_path, story, broker_session_timeout_ms="9000")


def test_the_replica_with_all_records_stays_if_the_others_crashed_unnoticed(tmp_path: Path):
    """2 and 3 lost power, and nobody has noticed when 4 is to give up its replica."""

    async def story(stage: Stage) -> None:
        await stage.start(2, 3, 4)
        await stage.create(2, 3, 4)
        moving = asyncio.ensure_future(stage.reassign([2, 3]))
        await asyncio.sleep(0.01)
        await stage.controller.register_broker(registration(2, incarnation=2))
        await stage.controller.register_broker(registration(3, incarnation=2))
        await moving
        found = stage.image.topics["t"].partitions[0]
        assert (found.leader, found.isr) == (4, (4,))
        assert found.is_reassigned

    play(tmp_path, story, broker_session_timeout_ms="9000")


def test_who_stays_silent_delays_a_removal_until_its_session_ends(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3, 4)
        await stage.create(2, 3, 4)

        async def beat() -> None:
            while True:
                await stage.beat(2)
                await stage.beat(4)
                await asyncio.sleep(SESSION_MS / 5000)

        beating = asyncio.ensure_future(beat())
        await stage.reassign([2, 3])
        found = stage.image.topics["t"].partitions[0]
        assert (set(found.isr), found.removing_replicas) == ({2, 4}, (4,))
        assert stage.image.brokers[3].fenced
        beating.cancel()

    play(tmp_path, story)


def test_moves_that_remove_nothing_at_once_wait_for_no_heartbeat(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3, 4)
        await stage.create(2, 3)
        await stage.reassign([3, 2])
        await stage.reassign([2, 4])
        assert stage.image.topics["t"].partitions[0].adding_replicas == (4,)
        await stage.reassign(None)
        assert stage.image.topics["t"].partitions[0].replicas == (2, 3)

    play(tmp_path, story, broker_session_timeout_ms="9000")


def test_a_second_process_is_refused_while_the_first_is_heard_of(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2)
        twin = registration(2, incarnation=2, directories=(folder(7),))
        with pytest.raises(KafkaError) as refused:
            await stage.controller.register_broker(twin)
        assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await stage.until(lambda image: image.brokers[2].fenced)
        await stage.controller.register_broker(twin)

    play(tmp_path, story)


def test_loss_becomes_allowed_and_a_leader_is_there_at_once(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3)
        await stage.create(2, 3)
        await stage.beat(3, want_fence=True)
        await stage.beat(2, want_fence=True)
        await stage.beat(3)
        assert partition(stage.image) == (-1, ())
        allow = KeyChange("unclean.leader.election.enable", Operation.SET, "true")
        changes = [ConfigChange((ResourceType.TOPIC, "t"), [allow])]
        await stage.controller.alter_configs(changes, validate_only=False)
        assert partition(stage.image) == (3, (3,))

    play(tmp_path, story, broker_session_timeout_ms="9000")


def test_preferred_leaders_come_back_by_themselves(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3)
        await stage.create(2, 3)
        await stage.beat(2, want_fence=True)
        await stage.beat(2)
        assert partition(stage.image) == (3, (3,))
        found = stage.image.topics["t"].partitions[0]
        change = RequestPartitionData(
            partition_index=0,
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=3), BrokerState(broker_id=2)],
        )
        request = AlterPartitionRequest(
            broker_id=3,
            broker_epoch=stage.image.brokers[3].epoch,
            topics=[RequestTopicData(topic_id=stage.image.topics["t"].id, partitions=[change])],
        )
        response = await stage.controller.alter_partition(request)
        assert response.topics[0].partitions[0].isr == [3, 2]
        await stage.until(lambda image: partition(image)[0] == 2)

    play(
        tmp_path,
        story,
        broker_session_timeout_ms="9000",
        leader_imbalance_check_interval_seconds="1",
    )


def test_elections_and_farewells_are_committed(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2, 3)
        await stage.create(2, 3)
        wanted = [TopicPartitions(topic="t", partitions=[0])]
        response = await stage.controller.elect_leaders(
            ElectLeadersRequest(topic_partitions=wanted)
        )
        result = response.replica_election_results[0].partition_result[0]
        assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
        await stage.controller.unregister_broker(UnregisterBrokerRequest(broker_id=2))
        assert 2 not in stage.image.brokers
        assert partition(stage.image) == (3, (3,))

    play(tmp_path, story, broker_session_timeout_ms="9000")


def test_a_controller_that_lost_its_office_fences_nobody(tmp_path: Path):
    async def story(stage: Stage) -> None:
        await stage.start(2)
        stage.controller._leadership_changed(False, stage.metadata.epoch)
        await asyncio.sleep(3 * SESSION_MS / 1000)
        assert not stage.image.brokers[2].fenced
        stage.controller._leadership_changed(True, stage.metadata.epoch)
        assert not stage.image.brokers[2].fenced
        await stage.until(lambda image: image.brokers[2].fenced)

    play(tmp_path, story)


def test_eligible_leaders_are_switched_off_and_on_with_what_has_to_go_with_it(tmp_path: Path):
    async def level(stage: Stage, wanted: int) -> None:
        update = FeatureUpdateKey(
            feature=ELR_VERSION_FEATURE,
            max_version_level=wanted,
            upgrade_type=1 if wanted else 2,
        )
        await stage.controller.update_features(UpdateFeaturesRequest(feature_updates=[update]))

    async def story(stage: Stage) -> None:
        await stage.start(2, 3)
        assert stage.image.config(CLUSTER_DEFAULT) == {"min.insync.replicas": "2"}
        await stage.create(2, 3)
        await stage.beat(3, want_fence=True)
        await stage.beat(2, want_fence=True)
        found = stage.image.topics["t"].partitions[0]
        assert (found.isr, found.eligible_leader_replicas) == ((), (2, 3))
        await level(stage, 0)
        assert partition(stage.image) == (-1, (2, 3))
        own = KeyChange("min.insync.replicas", Operation.SET, "1")
        changes = [ConfigChange((ResourceType.BROKER, "2"), [own])]
        assert await stage.controller.alter_configs(changes, validate_only=False) == [None]
        await level(stage, 1)
        assert stage.image.config(CLUSTER_DEFAULT) == {"min.insync.replicas": "2"}
        assert stage.image.config((ResourceType.BROKER, "2")) == {}
        (refused,) = await stage.controller.alter_configs(changes, validate_only=False)
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_CONFIG
        await stage.beat(3)
        assert partition(stage.image) == (3, (2, 3))

    play(tmp_path, story, min_insync_replicas="2", broker_session_timeout_ms="9000")
