"""The same requests to Apache Kafka and to Ottla: what they answer, field by field.

What is compared here is what clients and tools act on. Where our words differ from Kafka's on
purpose, `docs/compatibility.md` says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import quota_mutations
from bench.brokers import Broker, Kafka, Ottla, run_java
from confluent_kafka import Consumer, Producer, TopicPartition

import quota_questions
from broker_wire import Wire, until_served
from ottla.broker.metadata.resources import ResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, read_header

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(300)]

TOPIC, BROKER, LOGGER, METRICS, GROUP = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)
FAST_JVM = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
OPTIONS = {**Kafka.SINGLE_NODE, "group.initial.rebalance.delay.ms": "0"}
OWN_KEYS = {
    *("controller.listener.names", "controller.quorum.bootstrap.servers"),
    *("listeners", "log.dirs", "metadata.log.dir"),
}
"""Addresses and folders: these two nodes cannot have the same ones."""


class Both(NamedTuple):
    kafka: Broker
    ottla: Broker
    wires: tuple[Wire, Wire]

    def ask(self, request: Any, version: int) -> tuple[Any, Any]:
        """The answers of Kafka and of Ottla."""
        kafka, ottla = (wire.ask(request, version) for wire in self.wires)
        return kafka, ottla


@pytest.fixture(scope="module")
def both(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("answers")
    kafka = Kafka(folder / "kafka", OPTIONS, libs=kafka_libs)
    kafka.JVM = FAST_JVM
    ottla = Ottla(
        folder / "ottla", {**OPTIONS, "node.id": "1", "process.roles": "broker,controller"}
    )
    wires: list[Wire] = []
    try:
        for broker in (kafka, ottla):
            broker.start()
            wires.append(Wire(broker))
            prepare(wires[-1])
        yield Both(kafka, ottla, (wires[0], wires[1]))
    finally:
        for wire in wires:
            wire.close()
        kafka.remove()
        ottla.remove()


def prepare(wire: Wire) -> None:
    """A topic and settings of every kind; both coordinators."""
    config = CreatableTopicConfig(name="retention.ms", value="1000")
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=[config])
    (made,) = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7).topics
    assert made.error_code == 0, made
    for kind, name, configs in (
        (METRICS, "m", {"interval.ms": "5000", "metrics": "org.apache"}),
        (GROUP, "g", {"consumer.session.timeout.ms": "50000", "share.isolation.level": SHARED}),
        (TOPIC, "t", {"max.message.bytes": "2000", "leader.replication.throttled.replicas": "0:1"}),
        (BROKER, "1", {"log.retention.ms": "100", "leader.replication.throttled.rate": "1000"}),
        (BROKER, "1", {"some.plugins.key": "x", "num.io.threads": "9"}),
        (BROKER, "", {"log.cleaner.threads": "2", "log.retention.ms": "200"}),
    ):
        request = change(kind, name, configs)
        assert wire.ask(request, 1).responses[0].error_code == 0, (name, configs)
    for kind in (0, 1):
        request = FindCoordinatorRequest(key="g", key_type=kind)
        until_served(lambda asked=request: wire.ask(asked, 3), lambda answer: answer.error_code)


SHARED = "read_committed"


def change(
    kind: int, name: str, configs: Mapping[str, str], *, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    changes = [AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


# --- who coordinates ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "kind"), [(0, 0), *((version, kind) for version in range(1, 7) for kind in (0, 1))]
)
def test_a_coordinator_is_told_as_kafka_tells_it(both: Both, version: int, kind: int) -> None:
    one = FindCoordinatorRequest(key="g", key_type=kind)
    several = FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=kind)
    answers = both.ask(several if version >= 4 else one, version)
    kafka, ottla = (without_port(answer.coordinators or [answer]) for answer in answers)
    assert ottla == kafka


def without_port(coordinators: list[Any]) -> list[Any]:
    return [(c.error_code, c.error_message, c.node_id, c.host) for c in coordinators]


# --- configurations -----------------------------------------------------------------------------


def describe(
    both: Both, kind: int, name: str, version: int = 4, *, details: bool = True
) -> tuple[DescribeConfigsResult, DescribeConfigsResult]:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)],
        include_synonyms=details,
        include_documentation=details and version >= 3,
    )
    kafka, ottla = both.ask(request, version)
    return kafka.results[0], ottla.results[0]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((TOPIC, "t"), (BROKER, "1"), (BROKER, "")),
        *((GROUP, "g"), (GROUP, "other"), (METRICS, "m"), (METRICS, "other")),
    ],
)
def test_every_key_is_described_as_kafka_describes_it(both: Both, kind: int, name: str) -> None:
    kafka, ottla = describe(both, kind, name)
    assert (ottla.error_code, ottla.error_message) == (kafka.error_code, kafka.error_message)
    assert by_name(ottla) == by_name(kafka)


def by_name(result: DescribeConfigsResult) -> dict[str, Any]:
    return {entry.name: facts(entry) for entry in result.configs}


def facts(entry: DescribeConfigsResourceResult) -> tuple[Any, ...]:
    """All but the words of the documentation, which are ours."""
    kind = (entry.read_only, entry.is_sensitive, entry.config_type, bool(entry.documentation))
    if entry.name in OWN_KEYS:
        return kind
    synonyms = [(one.name, one.value, one.source) for one in entry.synonyms]
    return (entry.value, entry.config_source, *kind, synonyms)


def test_loggers_have_no_type_and_no_documentation(both: Both) -> None:
    for details in (True, False):
        kafka, ottla = describe(both, LOGGER, "1", details=details)
        assert {shape(entry) for entry in ottla.configs} == {
            shape(entry) for entry in kafka.configs
        }


def shape(entry: DescribeConfigsResourceResult) -> tuple[Any, ...]:
    flags = (entry.read_only, entry.config_source, entry.is_sensitive, entry.config_type)
    return (*flags, entry.documentation, len(entry.synonyms))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((TOPIC, "t"), (TOPIC, "missing"), (BROKER, "1"), (BROKER, "7"), (BROKER, "x")),
        *((LOGGER, ""), (LOGGER, "7"), (GROUP, "g"), (GROUP, ""), (METRICS, "m"), (METRICS, "")),
    ],
)
def test_a_description_says_what_kafka_says_in_every_version(
    both: Both, kind: int, name: str, version: int
) -> None:
    kafka, ottla = describe(both, kind, name, version, details=False)
    assert (ottla.error_code, ottla.error_message) == (kafka.error_code, kafka.error_message)


CHANGES = [
    # While a broker runs, pools of threads at least halve and at most double.
    *((BROKER, "1", {"num.io.threads": count}) for count in ("100", "19", "18", "4", "3", "0")),
    (BROKER, "", {"num.io.threads": "100"}),  # allowed: the broker has a value of its own
    (BROKER, "1", {"num.network.threads": "100"}),
    (BROKER, "", {"num.replica.fetchers": "9"}),
    (BROKER, "", {"background.threads": "4"}),
    (BROKER, "1", {"num.recovery.threads.per.data.dir": "5"}),
    (BROKER, "1", {"remote.log.reader.threads": "21"}),
    (BROKER, "1", {"log.cleaner.threads": "5"}),
    (BROKER, "1", {"log.cleaner.threads": "0"}),
    (BROKER, "", {"log.cleaner.dedupe.buffer.size": "1"}),
    (BROKER, "1", {"max.connections": "0"}),
    (BROKER, "1", {"max.connections.per.ip": "0"}),
    (BROKER, "", {"max.connections.per.ip.overrides": "127.0.0.1"}),
    (BROKER, "1", {"max.connection.creation.rate": "0"}),
    (BROKER, "1", {"cordoned.log.dirs": "/elsewhere"}),
    (BROKER, "", {"cordoned.log.dirs": "/elsewhere"}),
    (BROKER, "1", {"listeners": "PLAINTEXT"}),
    (BROKER, "1", {"listeners": "OTHER://127.0.0.1:0"}),
    (BROKER, "", {"listeners": "PLAINTEXT://127.0.0.1:0"}),
    (BROKER, "", {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}),
    (BROKER, "1", {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}),
    (BROKER, "1", {"listener.security.protocol.map": "A:PLAINTEXT,CONTROLLER:PLAINTEXT"}),
    (BROKER, "1", {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}),
    (BROKER, "1", {"log.dirs": "/x"}),
    (BROKER, "", {"log.retention.hours": "3"}),
    (BROKER, "1", {"ssl.keystore.location": "/x"}),
    (BROKER, "", {"listener.name.plaintext.ssl.keystore.location": "/x"}),
    (BROKER, "1", {"message.max.bytes": "-1"}),
    (BROKER, "1", {"log.cleanup.policy": "nonsense"}),
    (BROKER, "1", {"min.insync.replicas": "2"}),
    (BROKER, "7", {"log.retention.ms": "1"}),
    (METRICS, "", {"interval.ms": "100"}),
    (METRICS, "m", {"interval.ms": "1"}),
    (METRICS, "m", {"match": "x"}),
    (METRICS, "m", {"nonsense": "x"}),
    (GROUP, "g", {"consumer.session.timeout.ms": "1"}),
    (GROUP, "g", {"nonsense": "1"}),
    (TOPIC, "t", {"retention.ms": "x"}),
    (TOPIC, "t", {"nonsense": "1"}),
    (TOPIC, "missing", {"retention.ms": "1"}),
]


@pytest.mark.parametrize(("kind", "name", "configs"), CHANGES, ids=str)
def test_a_change_is_accepted_or_refused_as_by_kafka(
    both: Both, kind: int, name: str, configs: dict[str, str]
) -> None:
    kafka, ottla = (
        answer.responses[0]
        for answer in both.ask(change(kind, name, configs, validate_only=True), 1)
    )
    assert ottla.error_code == kafka.error_code, (kafka.error_message, ottla.error_message)
    reason = re.match(
        r"Invalid value org.apache.kafka.common.config.ConfigException: (.*) for configuration "
        r"Invalid dynamic configuration",
        kafka.error_message or "",
    )
    if reason or (kafka.error_message or "").startswith(("Cannot update", "These security")):
        expected = reason[1] if reason else kafka.error_message
        if "Security protocol" not in expected:
            assert ottla.error_message == expected


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        *((0, []), (1, []), (1, [TOPIC]), (1, [BROKER]), (1, [LOGGER]), (1, [METRICS, GROUP])),
        *((1, [0]), (1, [TOPIC, 99])),
    ],
)
def test_what_can_be_configured_is_listed_as_by_kafka(
    both: Both, version: int, kinds: list[int]
) -> None:
    kafka, ottla = both.ask(ListConfigResourcesRequest(resource_types=kinds), version)
    assert ottla.error_code == kafka.error_code
    kafka_names, ottla_names = (
        [(one.resource_type, one.resource_name) for one in answer.config_resources]
        for answer in (kafka, ottla)
    )
    assert sorted(ottla_names) == sorted(kafka_names)
    assert [kind for kind, _ in ottla_names] == [kind for kind, _ in kafka_names]


def test_tools_of_kafka_list_what_can_be_configured(both: Both, kafka_libs: Path) -> None:
    at = ("--bootstrap-server", both.ottla.address)
    listed = run_java(kafka_libs, "org.apache.kafka.tools.ClientMetricsCommand", *at, "--list")
    assert listed.stdout.split() == ["m"]
    metrics = ("--describe", "--entity-type", "client-metrics")
    described = run_java(kafka_libs, "kafka.admin.ConfigCommand", *at, *metrics)
    assert "interval.ms=5000" in described.stdout


# --- access rules -------------------------------------------------------------------------------

ANY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
ALLOW = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*"}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "request_",
    [
        DescribeAclsRequest(**ANY),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)]),
        CreateAclsRequest(creations=[AclCreation(**ALLOW, operation=3, permission_type=3)] * 2),
    ],
    ids=lambda request: type(request).__name__,
)
def test_without_an_authorizer_access_rules_are_refused_as_by_kafka(
    both: Both, request_: Any, version: int
) -> None:
    kafka, ottla = both.ask(request_, version)
    assert repr(ottla) == repr(kafka)


def test_what_is_served_is_declared_as_by_kafka(both: Both) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    kafka, ottla = (
        {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        for answer in both.ask(request, 3)
    )
    assert {29, 30, 31, 74} <= ottla.keys()
    assert ottla == {key: kafka[key] for key in ottla}


# --- requests of groups -------------------------------------------------------------------------


def commit(group_id: str, topic: str, **fields: Any) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **fields)


JOINING = {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000}
REQUESTS = [
    (JoinGroupRequest(session_timeout_ms=10_000), 9),
    (JoinGroupRequest(group_id="new", session_timeout_ms=1), 9),
    (JoinGroupRequest(session_timeout_ms=1), 5),
    (JoinGroupRequest(group_id="new", session_timeout_ms=2**31 - 1, protocol_type="consumer"), 7),
    (SyncGroupRequest(protocol_type="consumer", protocol_name="range"), 5),
    (SyncGroupRequest(), 3),
    (SyncGroupRequest(group_id="new"), 5),
    (HeartbeatRequest(), 4),
    (HeartbeatRequest(group_id="new", member_id="m"), 4),
    (LeaveGroupRequest(members=[MemberIdentity(member_id="m")]), 5),
    (LeaveGroupRequest(group_id="new", members=[MemberIdentity(member_id="m")]), 5),
    (LeaveGroupRequest(member_id="m"), 2),
    *(
        (DescribeGroupsRequest(groups=[name]), version)
        for name in ("", "new")
        for version in (5, 6)
    ),
    (DeleteGroupsRequest(groups_names=[""]), 2),
    (DeleteGroupsRequest(groups_names=["new"]), 2),
    (OffsetCommitRequest(group_id="empty"), 9),
    (DescribeGroupsRequest(groups=["empty"]), 6),  # nothing was committed: there is no such group
    (commit("empty", "missing"), 9),
    (DescribeGroupsRequest(groups=["empty"]), 6),
    (commit("", "t"), 9),
    (commit("new", "t", generation_id_or_member_epoch=3, member_id="m"), 8),
    (commit("new", "t", generation_id_or_member_epoch=3, member_id="m"), 9),
    (commit("new", "t", group_instance_id="i"), 8),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="")]), 9),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="new", member_epoch=4)]), 9),
    (TxnOffsetCommitRequest(transactional_id="x"), 3),
    (OffsetDeleteRequest(), 0),
    (OffsetDeleteRequest(group_id="new"), 0),
    (ConsumerGroupDescribeRequest(group_ids=["", "new"]), 1),
    *(
        (ConsumerGroupHeartbeatRequest(**fields), version)
        for fields, version in [
            ({"member_id": "m"}, 1),
            ({"group_id": "new"}, 1),
            ({"group_id": "new", "member_epoch": 1}, 0),
            ({"group_id": "new", "member_id": "m"}, 1),
            ({"group_id": "new", "member_id": "m", "member_epoch": -3}, 1),
            ({"group_id": "new", "member_id": "m", "member_epoch": -2}, 1),
            ({"group_id": "new", "member_id": "m", "member_epoch": -1}, 1),
            ({"group_id": "new", "member_id": "m", "member_epoch": 5}, 1),
            ({"group_id": "new", "instance_id": "", **JOINING}, 1),
            ({"group_id": "new", "rack_id": "", **JOINING}, 1),
            ({"group_id": "new", **JOINING}, 1),
            ({"group_id": "new", "topic_partitions": [], **JOINING}, 1),
            (
                {"group_id": "new", "topic_partitions": [], "subscribed_topic_names": ["t"]}
                | {"server_assignor": "none", **JOINING},
                1,
            ),
        ]
    ),
]


@pytest.mark.parametrize(
    ("request_", "version"),
    REQUESTS,
    ids=[f"{at}-{type(r).__name__}" for at, (r, _) in enumerate(REQUESTS)],
)
def test_the_arguments_of_a_group_request_are_judged_as_by_kafka(
    both: Both, request_: Any, version: int
) -> None:
    kafka, ottla = both.ask(request_, version)
    assert codes(ottla) == codes(kafka)


def codes(answer: Any) -> list[int]:
    """All error codes, from the outside in."""
    found = [answer.error_code] if hasattr(answer, "error_code") else []
    for name in ("members", "groups", "results", "topics", "partitions"):
        for part in getattr(answer, name, None) or ():
            found += codes(part)
    return found


# --- what coordinators write --------------------------------------------------------------------


def test_batches_of_coordinators_carry_the_sequences_that_kafka_writes(both: Both) -> None:
    kafka, ottla = (written(broker) for broker in (both.kafka, both.ottla))
    assert ottla == kafka
    assert {(topic, sequence) for topic, *_, sequence in ottla} == {
        ("__consumer_offsets", 0),
        ("__consumer_offsets", -1),
        ("__transaction_state", -1),
    }


def written(broker: Broker) -> set[tuple[Any, ...]]:
    """The kinds of batches after a commit of offsets outside of and in a transaction."""
    common = {"bootstrap.servers": broker.address}
    consumer = Consumer({**common, "group.id": "writes", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    producer = Producer({**common, "transactional.id": "writes"})
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets = [TopicPartition("t", 0, 2)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()
    time.sleep(0.5)  # the marker follows the answer
    return {
        (path.parent.name.rpartition("-")[0], *kind)
        for path in broker.data.glob("__*_*-*/*.log")
        if not path.parent.name.startswith("__cluster")
        for kind in batch_kinds(path.read_bytes())
    }


def batch_kinds(data: bytes) -> Iterator[tuple[Any, ...]]:
    position = 0
    while position < len(data):
        header = read_header(memoryview(data)[position:])
        flags = header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        yield flags, header.producer_id >= 0, header.producer_epoch >= 0, header.base_sequence
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")


def test_both_brokers_are_well(both: Both) -> None:
    """What was asked above did them no harm."""
    for broker, wire in zip((both.kafka, both.ottla), both.wires, strict=True):
        answer = wire.ask(FindCoordinatorRequest(key="g"), 3)
        assert answer.error_code == ErrorCode.NONE, broker.name
    assert "failed inside the broker" not in both.ottla.output


@pytest.mark.parametrize("version", [0, 1])
def test_client_quotas_are_set_found_and_refused_alike(both: Both, version: int) -> None:
    for request in quota_questions.requests():
        # A broker sees a change some time after the controller has answered.
        for pause_s in (0.0, 0.05, 1.0):
            time.sleep(pause_s)
            kafka, ottla = map(quota_questions.told, both.ask(request, version))
            if kafka == ottla:
                break
        assert kafka == ottla, request


def test_changes_of_partitions_are_throttled_alike(both: Both) -> None:
    client = quota_questions.change(
        ([("client-id", "mutator")], [("controller_mutation_rate", quota_mutations.RATE)])
    )
    for answer in both.ask(client, 1):
        assert answer.entries[0].error_code == 0, answer
    time.sleep(0.5)
    wires = [Wire(broker, client_id="mutator") for broker in (both.kafka, both.ottla)]
    for request, version, is_throttled in quota_mutations.requests():
        kafka, ottla = (quota_mutations.told(wire.ask(request, version)) for wire in wires)
        assert (kafka, kafka[1]) == (ottla, is_throttled), (request, kafka, ottla)
    for wire in wires:
        wire.close()
