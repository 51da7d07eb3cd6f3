"""The samples of requests, sent to Apache Kafka and to Ottla: the same codes, whoever asks.

Each set of rights that a sample names belongs to a user of its own, so that all ACLs are made
before the first request.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.brokers import HOST, free_port
from bench.cluster_nodes import KafkaNode, OttlaNode, start_together
from rights_of_all import SAMPLES
from rights_samples import EXISTING, Grant, Sample, codes_in, texts_in

from broker_wire import Wire, until_served
from ottla.broker.server.contract import BROKERS, CONTROLLERS
from ottla.config.authorization import STANDARD_AUTHORIZER
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.security.rights import Operation, PatternType, Permission, ResourceType
from sasl_broker import SaslWire, plain_users

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(300)]

COMPARED = [sample for sample in SAMPLES if sample.compared]
FAILS_IN_KAFKA = {
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, CONTROLLERS),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, CONTROLLERS),
}
"""Kafka's controllers name these in ApiVersions, but do not serve them."""
ON_EACH_LISTENER = [
    (sample, kind)
    for sample in COMPARED
    for kind in sample.kinds
    if (sample.key, kind) not in FAILS_IN_KAFKA
]
APIS_COMPARED_MIN = 40
NOT_READY = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS}
"""The codes while a transaction's coordinator is loading."""
PASSWORD = "secret"
WITHIN_S = 20


class Asker(NamedTuple):
    """A user with some of the rights of a sample."""

    user: str
    grants: tuple[Grant, ...]


def askers(sample: Sample) -> list[Asker]:
    """Return one without rights, those who lack one of several, and one with all, in this order:
    only the last one changes anything."""
    number = COMPARED.index(sample)
    rights: list[Sequence[Grant]] = [()]
    if len(sample.grants) > 1:
        rights += [[one for one in sample.grants if one is not lost] for lost in sample.grants]
    rights.append(sample.grants)
    return [Asker(f"s{number}r{at}", tuple(grants)) for at, grants in enumerate(rights)]


EVERY_ASKER = [asker for sample in COMPARED for asker in askers(sample)]


class Guarded:
    """A broker, as a super user sees it: that is whoever comes by its plaintext listeners. Others
    sign in."""

    node_id = 1

    def __init__(self, node: OttlaNode | KafkaNode) -> None:
        self.node = node
        node.number = self.node_id
        node.port, node.controller_port = free_port(), free_port()
        node.voters = f"1@{HOST}:{node.controller_port}"
        node.cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().replace("-", "a")[:22]
        self.ports = {BROKERS: free_port(), CONTROLLERS: free_port()}
        users = plain_users({asker.user: PASSWORD for asker in EVERY_ASKER})
        node.options = {
            "listeners": f"PLAINTEXT://{HOST}:{node.port},CLIENTS://{HOST}:{self.ports[BROKERS]},"
            f"CONTROLLER://{HOST}:{node.controller_port},"
            f"ASKED://{HOST}:{self.ports[CONTROLLERS]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "CLIENTS:SASL_PLAINTEXT,ASKED:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER,ASKED",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": users,
            "listener.name.asked.plain.sasl.jaas.config": users,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "secret of the tokens",
            **KafkaNode.SINGLE_NODE,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    # --- as the super user ------------------------------------------------------------------

    def connect(self) -> None:
        self._wire = Wire(self.node)
        self.create(EXISTING)
        acls = [
            AclCreation(
                resource_type=grant.resource_type,
                resource_name=grant.name,
                resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{asker.user}",
                host="*",
                operation=grant.operation,
                permission_type=Permission.ALLOW,
            )
            for asker in EVERY_ASKER
            for grant in asker.grants
        ]
        made = self.ask(CreateAclsRequest(creations=acls))
        assert {result.error_code for result in made.results} == {0}
        controller = Wire(self.node, self.node.controller_port)
        for wire in (self._wire, controller):
            _await_acls(wire, len(acls))
        controller.close()

    @property
    def cluster_id(self) -> str:
        return str(self.ask(DescribeClusterRequest()).cluster_id)

    def topic_id(self, name: str) -> bytes:
        found = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        return bytes(found.topics[0].topic_id)

    def ask(self, request: Any, version: int | None = None) -> Any:
        asked = api(request.API_KEY).latest_stable if version is None else version
        return self._wire.ask(request, asked)

    def create(self, *names: str) -> None:
        if not names:
            return
        topics = [CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names]
        made = self.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        codes = {topic.error_code for topic in made.topics}
        assert codes <= {0, ErrorCode.TOPIC_ALREADY_EXISTS}
        for name in names:
            offsets = ListOffsetsPartition(partition_index=0, timestamp=-1)
            wanted = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[offsets])]
            )
            until_served(
                lambda wanted=wanted: self.ask(wanted),  # type: ignore[misc]
                lambda answer: int(answer.topics[0].partitions[0].error_code),
            )

    def close(self) -> None:
        self._wire.close()
        self.node.remove()

    # --- as users ---------------------------------------------------------------------------

    def ask_as(self, asker: Asker, kind: str, request: Any, version: int) -> Any:
        wire = SaslWire(self.ports[kind])
        try:
            assert wire.plain(asker.user, PASSWORD).error_code == 0
            deadline = time.monotonic() + WITHIN_S
            while True:
                answer = wire.ask(request, version)
                if not codes_in(answer) & NOT_READY or time.monotonic() > deadline:
                    return answer
                time.sleep(0.05)
        finally:
            wire.close()

    def said(self, sample: Sample, kind: str) -> list[tuple[set[ErrorCode], set[str], bool]]:
        """Return, for each asker, the codes of the answer, what clients say about a lack of rights,
        and whether something was shown."""
        self.create(*sample.topics)
        sample.prepare(self)
        request = sample.request(self)
        told = []
        for asker in askers(sample):
            answer = self.ask_as(asker, kind, request, sample.asked_version)
            told.append((codes_in(answer), texts_in(answer), bool(sample.shown(answer))))
        return told


def _await_acls(wire: Wire, count: int) -> None:
    """Wait until a role of the node follows all ACLs: each has an authorizer of its own."""
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    deadline = time.monotonic() + WITHIN_S
    while True:
        answer = wire.ask(request, 3)
        assert not answer.error_code, answer.error_message
        found = sum(len(resource.acls) for resource in answer.resources)
        if found == count:
            return
        assert time.monotonic() < deadline, f"{found} of {count} ACLs"
        time.sleep(0.05)


class Both(NamedTuple):
    kafka: Guarded
    ottla: Guarded


@pytest.fixture(scope="module")
def both(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("rights")
    brokers = Both(
        Guarded(KafkaNode(folder / "kafka", libs=kafka_libs)), Guarded(OttlaNode(folder / "ottla"))
    )
    try:
        start_together([broker.node for broker in brokers])
        for broker in brokers:
            broker.connect()
        yield brokers
    finally:
        for broker in brokers:
            broker.close()


def test_many_apis_are_compared() -> None:
    assert len({sample.key for sample in COMPARED}) >= APIS_COMPARED_MIN


@pytest.mark.parametrize(("sample", "kind"), ON_EACH_LISTENER, ids=str)
def test_a_request_is_refused_and_allowed_as_by_kafka(
    both: Both, sample: Sample, kind: str
) -> None:
    kafka, ottla = (broker.said(sample, kind) for broker in both)
    assert ottla == kafka
    codes, _, _ = kafka[-1]
    assert codes == ({sample.allowed} if sample.allowed else set()), "the sample is wrong"
