"""Brokers come, go, crash, fetch and are reassigned in any order; what must hold always holds.

Beside the image runs a model of the data: which replicas of a partition have everything that was
ever acknowledged. A leader that does not have it is a loss, allowed only where somebody allowed it,
or where all that the controller counted on lost power one after the other.

It runs with and without eligible leader replicas. With them nothing is acknowledged while fewer are
in sync than min.insync.replicas, and power may fail on whoever is not the last that counts.
"""

from __future__ import annotations

from random import Random
from typing import Any

from controller_cases import CONFIG, applied, folder, registration, topic
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.broker.controller.alter_configs import ConfigChange, KeyChange, Operation, alter_configs
from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.controller.broker_states import fence, lose_folders, unregister
from ottla.broker.controller.config_rules import ConfigRules
from ottla.broker.controller.elect_leaders import balance_leaders, elect_leaderless, elect_leaders
from ottla.broker.controller.eligible import min_isr_by_topic
from ottla.broker.controller.heartbeats import State, heartbeat
from ottla.broker.controller.reassignments import alter_reassignments
from ottla.broker.controller.registration import register_broker
from ottla.broker.controller.replica_folders import assign_replicas
from ottla.broker.controller.sessions import Sessions
from ottla.broker.controller.topics.create_topics import create_topics
from ottla.broker.controller.topics.delete_topics import delete_topics
from ottla.broker.controller.unclean import elections_by_topic
from ottla.broker.metadata.changes import ImageChange
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.broker.metadata.records import decode_record, encode_record
from ottla.broker.metadata.resources import ResourceType
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
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
)
from ottla.protocol.messages.assign_replicas_to_dirs import (
    RequestPartitionData as FolderPartition,
)
from ottla.protocol.messages.assign_replicas_to_dirs import (
    RequestTopicData as FolderTopic,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message

BROKERS = range(1, 6)
brokers = st.sampled_from(BROKERS)
seeds = st.integers(0, 2**16)
lives = st.sampled_from(["stopped", "killed", "lost power"])
EMPTY = MetadataImage(cluster_id="test", offset=0)


def expect_stale(error: KafkaError) -> None:
    """The only reason for which a broker as a whole is turned away."""
    assert error.code is ErrorCode.STALE_BROKER_EPOCH


class ControllerMachine(RuleBasedStateMachine):
    empty = EMPTY

    def __init__(self) -> None:
        super().__init__()
        self.image = self.empty
        self.log: list[Message] = []
        self.sessions = Sessions(9000)
        self.running: dict[int, int] = {}
        """Broker -> the epoch that its process knows."""
        self.incarnations = 0
        self.complete: dict[tuple[bytes, int], set[int]] = {}
        """Partition -> the replicas that have all that was acknowledged."""
        self.overdrawn: set[tuple[bytes, int]] = set()
        """Partitions of which the last one that counted lost power: nobody can do better."""
        self.at_own_risk = False
        """Somebody asked for unclean elections."""

    # The ground

    def decide(self, decide: Any, *arguments: Any, **options: Any) -> Any:
        elections = elections_by_topic(self.image, CONFIG)
        decision = decide(self.image, *arguments, elections, **options)
        self.commit(decision)
        return decision.response

    def commit(self, decision: Decision[Any]) -> None:
        before = self.image
        self.image = applied(before, decision)
        self.log += decision.records
        self.follow(before)

    def follow(self, before: MetadataImage) -> None:
        """What a change means for the data, and what must hold between two images."""
        for found in self.image.topics.values():
            old = before.topics_by_id.get(found.id)
            for partition in found.partitions.values():
                key = (found.id, partition.index)
                was = None if old is None else old.partitions.get(partition.index)
                if was is None:
                    self.complete[key] = set(partition.replicas)
                else:
                    self.check_step(was, partition)
                if was is not None and self.is_unclean(was, partition):
                    self.follow_unclean(found.name, key, partition)
                # Something is written all the time, and acknowledged by those in sync.
                if partition.leader >= 0 and len(partition.isr) >= self.needed(
                    found.name, partition
                ):
                    self.complete[key] &= set(partition.isr)
                    self.overdrawn.discard(key)

    def is_unclean(self, was: PartitionImage, now: PartitionImage) -> bool:
        elected = now.leader >= 0 and now.leader != was.leader
        return elected and now.leader_recovery_state == 1 and now.leader not in self.counted_on(was)

    def follow_unclean(self, name: str, key: tuple[bytes, int], partition: PartitionImage) -> None:
        allowed = self.image.topic_config(name).get("unclean.leader.election.enable") == "true"
        if not (allowed or self.at_own_risk or key in self.overdrawn):
            assert partition.leader in self.complete[key], "an election lost data"
        self.complete[key] = set(partition.isr)

    def needed(self, name: str, partition: PartitionImage) -> int:
        """How many have to be in sync for anything to be acknowledged."""
        return min(min_isr_by_topic(self.image)(name), len(partition.replicas))

    def counted_on(self, partition: PartitionImage) -> set[int]:
        return {*partition.isr, *partition.eligible_leader_replicas}

    def check_step(self, was: PartitionImage, now: PartitionImage) -> None:
        if now != was:
            assert now.partition_epoch > was.partition_epoch
        assert now.leader_epoch >= was.leader_epoch
        if now.leader != was.leader or not set(was.replicas) <= set(now.replicas):
            assert now.leader_epoch > was.leader_epoch

    def partitions(self) -> list[tuple[str, bytes, PartitionImage]]:
        return [
            (found.name, found.id, partition)
            for found in self.image.topics.values()
            for partition in found.partitions.values()
        ]

    def some(self, seed: int) -> tuple[str, bytes, PartitionImage] | None:
        found = self.partitions()
        return Random(seed).choice(found) if found else None

    @initialize(seed=seeds)
    def found(self, seed: int) -> None:
        """A cluster that works."""
        for broker in BROKERS[:4]:
            self.start_and_serve(broker, "killed")
        self.create_topic(seed, 2, "false")
        self.create_topic(seed + 1, 2, "true")

    # Brokers

    @rule(broker=brokers, how=lives)
    def start_and_serve(self, broker: int, how: str) -> None:
        self.start(broker, how)
        self.send_beat(broker, caught_up=True, leave=False)

    @rule(broker=brokers, how=lives)
    def start(self, broker: int, how: str) -> None:
        """A process starts where another one stopped properly, was killed, or lost power, and then
        the end of its logs may be lost."""
        existing = self.image.brokers.get(broker)
        for _, topic_id, partition in self.partitions():
            if how == "lost power" and broker in partition.replicas:
                self.lose_end(broker, (topic_id, partition.index), partition)
        self.incarnations += 1
        request = registration(broker, incarnation=self.incarnations)
        if existing is not None and how == "stopped":
            request.previous_broker_epoch = existing.epoch
        response = self.decide(register_broker, request, is_alive=True)
        self.running[broker] = response.broker_epoch
        self.sessions.begin(broker, 0)

    def lose_end(self, broker: int, key: tuple[bytes, int], partition: PartitionImage) -> None:
        if self.counted_on(partition) <= {broker}:
            self.overdrawn.add(key)  # there is nobody who could have more
        else:
            self.complete[key].discard(broker)

    @rule(broker=brokers, caught_up=st.booleans())
    def beat(self, broker: int, caught_up: bool) -> None:
        if broker in self.running:
            self.send_beat(broker, caught_up, leave=False)

    @rule(broker=brokers)
    def ask_to_leave(self, broker: int) -> None:
        if broker in self.running:
            self.send_beat(broker, caught_up=True, leave=True)

    def send_beat(self, broker: int, caught_up: bool, leave: bool) -> State | None:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.running[broker],
            current_metadata_offset=self.image.offset if caught_up else -1,
            want_shut_down=leave,
        )
        session = self.sessions.touch(broker, 0)
        session.metadata_offset = request.current_metadata_offset
        lowest = self.sessions.lowest_active_offset(self.image.brokers)
        try:
            beat = self.decide(heartbeat, request, session, lowest)
        except KafkaError as error:
            expect_stale(error)
            del self.running[broker]
            return None
        if beat.state is State.CONTROLLED_SHUTDOWN and session.shutdown_offset < 0:
            session.shutdown_offset = self.image.offset
        if beat.state is State.SHUTDOWN_NOW:
            assert all(partition.leader != broker for _, _, partition in self.partitions())
            del self.running[broker]
        return beat.state  # type: ignore[no-any-return]

    @rule(broker=brokers)
    def die_unnoticed(self, broker: int) -> None:
        self.running.pop(broker, None)

    @rule(broker=brokers)
    def session_ends(self, broker: int) -> None:
        found = self.image.brokers.get(broker)
        if found is not None and not found.fenced:
            elections = elections_by_topic(self.image, CONFIG)
            self.commit(Decision(fence(self.image, found, elections), None))

    @rule(broker=brokers)
    def forget(self, broker: int) -> None:
        if broker in self.image.brokers and broker not in self.running:
            elections = elections_by_topic(self.image, CONFIG)
            self.commit(Decision(unregister(self.image, broker, elections), None))

    @rule()
    def fail_over(self) -> None:
        self.sessions.restart(self.image.brokers, 0)
        self.decide(elect_leaderless)

    # Topics

    @rule(seed=seeds, partitions=st.integers(1, 3), unclean=st.sampled_from(["true", "false"]))
    def create_topic(self, seed: int, partitions: int, unclean: str) -> None:
        active = sum(broker.is_active for broker in self.image.brokers.values())
        if active and len(self.image.topics) < 4:
            factor = min(3, len(self.image.brokers))
            wanted = topic(
                f"t{seed}",
                partitions,
                factor,
                unclean_leader_election_enable=unclean,
                min_insync_replicas=str(1 + seed % 3),
            )
            request = CreateTopicsRequest(topics=[wanted])
            self.commit(create_topics(self.image, request, CONFIG, Random(seed)))

    @rule(seed=seeds)
    def delete_topic(self, seed: int) -> None:
        found = self.some(seed)
        if found is not None and seed % 3 == 0:
            request = DeleteTopicsRequest(topic_names=[found[0]])
            self.commit(delete_topics(self.image, request))

    @rule(seed=seeds, least=st.sampled_from(["1", "2", "3"]))
    def change_min_isr(self, seed: int, least: str) -> None:
        found = self.some(seed)
        if found is not None:
            keys = [KeyChange("min.insync.replicas", Operation.SET, least)]
            changes = [ConfigChange((ResourceType.TOPIC, found[0]), keys)]
            rules = ConfigRules(0, CONFIG)
            self.commit(alter_configs(self.image, changes, rules, validate_only=False))

    # Leaders

    @rule(seed=seeds, isr=st.sets(brokers), stale=st.booleans())
    def alter_isr(self, seed: int, isr: set[int], stale: bool) -> None:
        """A leader drops some from the ISR, and takes in who has caught up."""
        found = self.some(seed)
        if found is None or found[2].leader not in self.running:
            return
        _, topic_id, partition = found
        wanted = {partition.leader, *(b for b in isr if b in partition.replicas)}
        alive = {b for b in wanted if b in partition.isr or b in self.running}
        self.send_alter(topic_id, partition, alive, stale)

    @rule(seed=seeds)
    def catch_up(self, seed: int) -> None:
        """Whoever runs has fetched everything."""
        found = self.some(seed)
        if found is not None and found[2].leader in self.running:
            self.send_alter(found[1], found[2], self.alive(found[2]))

    def alive(self, partition: PartitionImage) -> set[int]:
        running = {b for b in partition.replicas if b in self.running and self.is_active(b)}
        return {partition.leader, *running}

    def is_active(self, broker: int) -> bool:
        found = self.image.brokers.get(broker)
        return found is not None and found.is_active and found.epoch == self.running[broker]

    def send_alter(
        self, topic_id: bytes, partition: PartitionImage, isr: set[int], stale: bool = False
    ) -> ErrorCode:
        leader = partition.leader
        change = RequestPartitionData(
            partition_index=partition.index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch - stale,
            new_isr_with_epochs=[
                BrokerState(broker_id=b, broker_epoch=self.running.get(b, -1)) for b in sorted(isr)
            ],
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.running[leader],
            topics=[RequestTopicData(topic_id=topic_id, partitions=[change])],
        )
        # Who is in the ISR that is asked for has fetched all there is, whatever comes of it.
        before = set(self.complete[topic_id, partition.index])
        self.complete[topic_id, partition.index] |= isr
        try:
            response = self.decide(alter_partition, request)
        except KafkaError as error:
            self.complete[topic_id, partition.index] = before
            expect_stale(error)
            return error.code
        code = ErrorCode(response.topics[0].partitions[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            self.complete[topic_id, partition.index] = before
        assert code is not ErrorCode.NONE or not stale
        return code

    @rule(seed=seeds, replicas=st.lists(brokers, min_size=1, unique=True), cancel=st.booleans())
    def reassign(self, seed: int, replicas: list[int], cancel: bool) -> None:
        found = self.some(seed)
        if found is None:
            return
        name, topic_id, partition = found
        if cancel and set(partition.isr) <= set(partition.adding_replicas):
            return  # an unclean cancellation is a loss that somebody wanted
        wanted = ReassignablePartition(
            partition_index=partition.index, replicas=None if cancel else replicas
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=[wanted])]
        )
        self.decide(alter_reassignments, request)

    @rule(unclean=st.booleans())
    def elect(self, unclean: bool) -> None:
        request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=None)
        self.at_own_risk = unclean
        self.commit(elect_leaders(self.image, request))
        self.at_own_risk = False

    @rule()
    def balance(self) -> None:
        self.commit(balance_leaders(self.image))

    # Folders

    @rule(broker=brokers, seed=seeds)
    def note_folder(self, broker: int, seed: int) -> None:
        found = self.some(seed)
        if found is None or broker not in self.running or broker not in found[2].replicas:
            return
        topics = [
            FolderTopic(
                topic_id=found[1], partitions=[FolderPartition(partition_index=found[2].index)]
            )
        ]
        request = AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=self.running[broker],
            directories=[RequestDirectoryData(id=folder(broker), topics=topics)],
        )
        try:
            self.decide(assign_replicas, request)
        except KafkaError as error:
            expect_stale(error)

    @rule(broker=brokers)
    def lose_folder(self, broker: int) -> None:
        """Of two folders the one without a replica: nothing changes for the partitions."""
        found = self.image.brokers.get(broker)
        if found is not None:
            elections = elections_by_topic(self.image, CONFIG)
            records = lose_folders(self.image, found, [b"another folder.."], elections)
            assert records == []

    # What holds

    @invariant()
    def partitions_are_in_order(self) -> None:
        for name, topic_id, partition in self.partitions():
            self.somebody_is_remembered(name, partition)
            assert len(set(partition.isr)) == len(partition.isr)
            assert set(partition.isr) <= set(partition.replicas)
            assert set(partition.adding_replicas) <= set(partition.replicas)
            assert set(partition.removing_replicas) <= set(partition.replicas)
            assert len(partition.directories) == len(partition.replicas)
            if partition.leader >= 0:
                assert partition.leader in partition.isr
                assert self.image.brokers[partition.leader].is_active
            if (topic_id, partition.index) not in self.overdrawn:
                complete = self.complete[topic_id, partition.index]
                assert self.counted_on(partition) <= complete, f"{partition} lacks something"

    def somebody_is_remembered(self, name: str, partition: PartitionImage) -> None:
        elr, last_known = partition.eligible_leader_replicas, partition.last_known_elr
        assert partition.isr or elr or last_known, "nobody can ever lead"
        assert set(elr) <= set(partition.replicas) - set(partition.isr)
        assert bool(last_known) == (partition.leader < 0)
        assert partition.isr or partition.leader < 0
        if len(partition.isr) >= self.needed(name, partition):
            assert not elr

    @invariant()
    def brokers_in_an_isr_are_active_or_the_last(self) -> None:
        for _, _, partition in self.partitions():
            if len(partition.isr) > 1:
                assert all(self.image.brokers[b].is_active for b in partition.isr)

    def teardown(self) -> None:
        self.heal()
        change = ImageChange(self.empty)
        change.apply([decode_record(encode_record(record)) for record in self.log])
        assert change.finish(self.image.offset, 1)[0] == self.image

    def heal(self) -> None:
        """Everybody is well and fetches: everything gets a leader and is where it should be."""
        for broker in BROKERS:
            self.start(broker, "killed")
        for broker in BROKERS:
            assert self.send_beat(broker, caught_up=True, leave=False) is State.UNFENCED
        for _ in range(2):
            for _, topic_id, partition in self.partitions():
                assert partition.leader >= 0
                code = self.send_alter(topic_id, partition, set(partition.replicas))
                assert code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
        self.commit(balance_leaders(self.image))
        for _, _, partition in self.partitions():
            assert not partition.is_reassigned
            assert set(partition.isr) == set(partition.replicas)
            assert partition.leader == partition.replicas[0]


class MachineWithoutElr(ControllerMachine):
    """As before KIP-966: the last one in sync stays in the ISR."""

    empty = EMPTY.apply([FeatureLevelRecord(name="metadata.version", feature_level=30)], 1, 0)

    def somebody_is_remembered(self, name: str, partition: PartitionImage) -> None:
        assert partition.isr, "the last one in sync is kept"
        assert not partition.eligible_leader_replicas
        assert not partition.last_known_elr


for machine in (ControllerMachine, MachineWithoutElr):
    machine.TestCase.settings = settings(
        max_examples=60,
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
TestControllerMachine = ControllerMachine.TestCase
TestMachineWithoutElr = MachineWithoutElr.TestCase
