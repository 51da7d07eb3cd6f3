"""The same requests about ACLs to Apache Kafka and to Ottla: what they answer, field by field."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.brokers import Broker, Kafka, Ottla

from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(300)]

FAST_JVM = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
OPTIONS = {
    **Kafka.SINGLE_NODE,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
VALID = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


class Both(NamedTuple):
    wires: tuple[Wire, Wire]

    def ask(self, request: Any, version: int = 3) -> tuple[Any, Any]:
        """The answers of Kafka and of Ottla."""
        kafka, ottla = (wire.ask(request, version) for wire in self.wires)
        return kafka, ottla


@pytest.fixture(scope="module")
def both(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("acls")
    kafka = Kafka(folder / "kafka", OPTIONS, libs=kafka_libs)
    kafka.JVM = FAST_JVM
    own = {"node.id": "1", "process.roles": "broker,controller"}
    brokers: list[Broker] = [kafka, Ottla(folder / "ottla", {**OPTIONS, **own})]
    wires: list[Wire] = []
    try:
        for broker in brokers:
            broker.start()
            wires.append(Wire(broker))
        yield Both((wires[0], wires[1]))
    finally:
        for wire in wires:
            wire.close()
        for broker in brokers:
            broker.remove()


def sorted_out(answer: Any) -> str:
    """Kafka answers in the order of its hash tables."""
    for result in getattr(answer, "filter_results", ()):
        result.matching_acls.sort(key=repr)
    for resource in getattr(answer, "resources", ()):
        resource.acls.sort(key=repr)
    if hasattr(answer, "resources"):
        answer.resources.sort(key=repr)
    return repr(answer)


def creations(*changes: dict[str, Any]) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[AclCreation(**{**VALID, **one}) for one in changes])


def deletions(*filters: dict[str, Any]) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**{**ANY, **one}) for one in filters])


INVALID = [
    {"resource_type": 4},
    {"resource_type": 4, "resource_name": ""},
    {"resource_name": ""},
    {"resource_type": 99},
    {"resource_pattern_type": 9},
    {"operation": 99},
    {"permission_type": 9},
    {"principal": "ann"},
    {"principal": ""},
    {"principal": "ann", "permission_type": 9},
    {"host": ""},
    {"host": "no host"},
    {"principal": ":"},
    {"principal": "Group:a:b"},
]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("change", INVALID, ids=str)
def test_an_acl_is_refused_or_taken_as_by_kafka(
    both: Both, change: dict[str, Any], version: int
) -> None:
    kafka, ottla = both.ask(creations(change, {}), version)
    assert repr(ottla) == repr(kafka)


FILTERS_ONLY = [
    {"resource_type": 1},
    {"resource_pattern_type": 1},
    {"resource_pattern_type": 2},
    {"operation": 1},
    {"permission_type": 1},
]


@pytest.mark.parametrize("change", FILTERS_ONLY, ids=str)
def test_words_of_filters_in_an_acl_fail_it_alone(both: Both, change: dict[str, Any]) -> None:
    """Kafka throws an exception of Java that fails all ACLs of the request."""
    kafka, ottla = both.ask(creations(change, {}))
    assert [result.error_code for result in kafka.results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert [result.error_code for result in ottla.results] == [ErrorCode.INVALID_REQUEST, 0]


@pytest.mark.parametrize(
    "filters",
    [
        [{"resource_type_filter": 99}],
        [{"pattern_type_filter": 9}, {"principal_filter": "User:nobody"}],
        [{"operation": 99}],
        [{"permission_type": 9}],
        [{"resource_name_filter": ""}],
        [],
    ],
    ids=str,
)
def test_a_filter_is_refused_or_taken_as_by_kafka(
    both: Both, filters: list[dict[str, Any]]
) -> None:
    kafka, ottla = both.ask(deletions(*filters))
    assert repr(ottla) == repr(kafka)


@pytest.mark.parametrize("seed", range(3))
def test_a_random_course_of_changes_is_answered_as_by_kafka(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    both.ask(deletions({}))
    for _ in range(40):
        request: Any
        if chance.random() < 0.5:
            request = creations(*(some_acl(chance) for _ in range(chance.randrange(1, 5))))
        elif chance.random() < 0.5:
            request = deletions(*(some_filter(chance) for _ in range(chance.randrange(1, 3))))
        else:
            request = DescribeAclsRequest(**{**ANY, **some_filter(chance)})
        kafka, ottla = map(sorted_out, both.ask(request, chance.choice([1, 2, 3])))
        assert ottla == kafka, request
    kafka, ottla = map(sorted_out, both.ask(DescribeAclsRequest(**ANY)))
    assert ottla == kafka


NAMES, WHO, HOSTS = ["t", "te", "*", "test"], ["User:a", "User:*"], ["*", "10.0.0.1"]


def some_acl(chance: random.Random) -> dict[str, Any]:
    return {
        "resource_type": chance.choice([2, 3, 5, 6, 7]),
        "resource_name": chance.choice(NAMES),
        "resource_pattern_type": chance.choice([3, 4]),
        "principal": chance.choice(WHO),
        "host": chance.choice(HOSTS),
        "operation": chance.choice([2, 3, 4, 8]),
        "permission_type": chance.choice([2, 3]),
    }


def some_filter(chance: random.Random) -> dict[str, Any]:
    return {
        "resource_type_filter": chance.choice([1, 2, 3]),
        "resource_name_filter": chance.choice([None, *NAMES]),
        "pattern_type_filter": chance.choice([1, 2, 3, 4]),
        "principal_filter": chance.choice([None, *WHO]),
        "host_filter": chance.choice([None, *HOSTS]),
        "operation": chance.choice([1, 1, 3]),
        "permission_type": chance.choice([1, 1, 2, 3]),
    }
