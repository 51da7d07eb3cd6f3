"""The APIs of groups and offsets over the wire, in every version that is served."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench.brokers import Broker

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

pytestmark = pytest.mark.filterwarnings("ignore")
TOPIC = "versions"
UNKNOWN_ID = b"?" * 16


class Wire:
    """One request at a time over a socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self.topic_id = bytes(16)

    def __call__(self, key: ApiKey, request: Any, version: int) -> Any:
        declared = api(key)
        flexible = declared.flexible_from is not None and version >= declared.flexible_from
        head = struct.pack(">hhih", key, version, 1, 4) + b"wire" + (b"\0" if flexible else b"")
        body = b"".join(bytes(c) for c in encoder(declared.request_class(), version)(request))
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        start = 5 if flexible else 4
        message, end = decoder(declared.response_class(), version)(answer, start)
        assert end == len(answer)
        return message

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


def versions(key: ApiKey) -> range:
    lowest, _ = api(key).versions
    return range(lowest, api(key).latest_stable + 1)


@pytest.fixture(scope="module")
def wire(group_broker: Broker) -> Iterator[Wire]:
    made = Wire(group_broker.port)
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    created = made(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), 7)
    assert created.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    made.topic_id = made(ApiKey.METADATA, wanted, 12).topics[0].topic_id
    find = FindCoordinatorRequest(coordinator_keys=["any"])
    deadline = time.monotonic() + 30
    while made(ApiKey.FIND_COORDINATOR, find, 4).coordinators[0].error_code:
        assert time.monotonic() < deadline, "nobody coordinates groups"
        time.sleep(0.1)
    while any(
        one.error_code and not one.partition_index
        for one in commit(made, 8, "any", 1).topics[0].partitions
    ):
        assert time.monotonic() < deadline, "the coordinator does not work"
        time.sleep(0.1)
    yield made
    made._socket.close()


def commit(wire: Wire, version: int, group: str, offset: int, topic: str = TOPIC) -> Any:
    by_id = {TOPIC: wire.topic_id}.get(topic, UNKNOWN_ID)
    return wire(
        ApiKey.OFFSET_COMMIT,
        OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=by_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata="n"
                        )
                        for index in (0, 9)
                    ],
                )
            ],
        ),
        version,
    )


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_the_coordinator_is_found(wire: Wire, group_broker: Broker, version: int) -> None:
    request = FindCoordinatorRequest(key="g")
    if version >= 4:
        request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
    answer = wire(ApiKey.FIND_COORDINATOR, request, version)
    found = answer.coordinators if version >= 4 else [answer]
    assert {(one.error_code, one.host, one.port) for one in found} == {
        (0, "127.0.0.1", group_broker.port)
    }
    if version >= 4:
        assert [one.key for one in found] == ["g", "h"]
    if version >= 1:
        strange = FindCoordinatorRequest(
            key="" if version >= 4 else "g",
            key_type=9,
            coordinator_keys=["g"] if version >= 4 else [],
        )
        answer = wire(ApiKey.FIND_COORDINATOR, strange, version)
        one = answer.coordinators[0] if version >= 4 else answer
        assert one.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_commits_are_judged_partition_by_partition(wire: Wire, version: int) -> None:
    group = f"commit-{version}"
    (topic,) = commit(wire, version, group, 5).topics
    assert {one.partition_index: one.error_code for one in topic.partitions} == {
        0: 0,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (topic,) = commit(wire, version, group, 5, "no-such-topic").topics
    assert {one.error_code for one in topic.partitions} == {unknown}
    fetched = fetch(wire, 9, group)
    assert fetched[0] == (5, 0)


def fetch(wire: Wire, version: int, group: str) -> dict[int, tuple[int, int]]:
    """Offset and error by partition, of the topic and partitions 0 and 1."""
    if version < 8:
        request = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])],
        )
        answer = wire(ApiKey.OFFSET_FETCH, request, version)
        assert answer.error_code == 0
        (topic,) = answer.topics
    else:
        wanted = OffsetFetchRequestTopics(
            name=TOPIC, topic_id=wire.topic_id, partition_indexes=[0, 1]
        )
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
        )
        (one,) = wire(ApiKey.OFFSET_FETCH, request, version).groups
        assert (one.group_id, one.error_code) == (group, 0)
        (topic,) = one.topics
    return {p.partition_index: (p.committed_offset, p.error_code) for p in topic.partitions}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offsets_are_fetched_one_by_one_and_all_at_once(wire: Wire, version: int) -> None:
    group = f"fetch-{version}"
    assert fetch(wire, version, group) == {0: (-1, 0), 1: (-1, 0)}
    commit(wire, 8, group, 42)
    assert fetch(wire, version, group) == {0: (42, 0), 1: (-1, 0)}
    if version < 2:
        return
    if version < 8:
        everything = OffsetFetchRequest(group_id=group, topics=None)
        (topic,) = wire(ApiKey.OFFSET_FETCH, everything, version).topics
    else:
        everything = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
        )
        (topic,) = wire(ApiKey.OFFSET_FETCH, everything, version).groups[0].topics
    if version >= 10:
        assert topic.topic_id == wire.topic_id
    else:
        assert topic.name == TOPIC
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions] == [
        (0, 42, "n")
    ]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups_are_fetched_in_the_order_asked(wire: Wire, version: int) -> None:
    names = [f"several-{version}-{number}" for number in range(8)]
    for number, name in enumerate(names):
        commit(wire, 8, name, number)
    wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    answer = wire(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=wanted), version)
    found = [(g.group_id, g.topics[0].partitions[0].committed_offset) for g in answer.groups]
    assert found == [(name, number) for number, name in enumerate(names)]


def test_topics_that_do_not_exist_have_no_offsets_by_their_id(wire: Wire) -> None:
    wanted = OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[3])
    group = OffsetFetchRequestGroup(group_id="by-id", topics=[wanted])
    answer = wire(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[group]), 10)
    (topic,) = answer.groups[0].topics
    assert topic.topic_id == UNKNOWN_ID
    assert [p.error_code for p in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_listed(wire: Wire, version: int) -> None:
    group = f"list-{version}"
    commit(wire, 8, group, 1)
    answer = wire(ApiKey.LIST_GROUPS, ListGroupsRequest(), version)
    assert answer.error_code == 0
    (listed,) = [one for one in answer.groups if one.group_id == group]
    if version >= 4:
        assert listed.group_state == "Empty"
        none = wire(ApiKey.LIST_GROUPS, ListGroupsRequest(states_filter=["Dead"]), version)
        assert none.groups == []
    if version >= 5:
        assert listed.group_type == "classic"
        some = wire(ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=["Classic"]), version)
        assert group in {one.group_id for one in some.groups}
        none = wire(ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=["share"]), version)
        assert none.groups == []


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_groups_are_described(wire: Wire, version: int) -> None:
    group = f"describe-{version}"
    commit(wire, 8, group, 1)
    request = DescribeGroupsRequest(
        groups=[group, "nobody"], include_authorized_operations=version >= 3
    )
    groups = wire(ApiKey.DESCRIBE_GROUPS, request, version).groups
    there, missing = sorted(groups, key=lambda one: one.group_id)
    assert (there.error_code, there.group_id, there.group_state) == (0, group, "Empty")
    assert (missing.group_id, missing.group_state) == ("nobody", "Dead")
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 3:
        assert there.authorized_operations > 0


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted(wire: Wire, version: int) -> None:
    group = f"delete-{version}"
    commit(wire, 8, group, 1)
    request = DeleteGroupsRequest(groups_names=[group, "nobody"])
    answer = wire(ApiKey.DELETE_GROUPS, request, version)
    assert {one.group_id: one.error_code for one in answer.results} == {
        group: 0,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert fetch(wire, 9, group)[0] == (-1, 0)


def test_offsets_are_deleted(wire: Wire) -> None:
    commit(wire, 8, "delete-offsets", 1)
    request = OffsetDeleteRequest(
        group_id="delete-offsets",
        topics=[
            OffsetDeleteRequestTopic(
                name=TOPIC,
                partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in (0, 9)],
            )
        ],
    )
    answer = wire(ApiKey.OFFSET_DELETE, request, 0)
    assert answer.error_code == 0
    assert {p.partition_index: p.error_code for p in answer.topics[0].partitions} == {
        0: 0,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert fetch(wire, 9, "delete-offsets")[0] == (-1, 0)
    request.group_id = "nobody"
    assert wire(ApiKey.OFFSET_DELETE, request, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_expiry_that_the_client_sets_is_kept(wire: Wire) -> None:
    request = OffsetCommitRequest(
        group_id="expiring",
        retention_time_ms=300,
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=""
                    )
                ],
            )
        ],
    )
    wire(ApiKey.OFFSET_COMMIT, request, 4)
    assert fetch(wire, 9, "expiring")[0] == (1, 0)
    deadline = time.monotonic() + 10
    while fetch(wire, 9, "expiring")[0] != (-1, 0):
        assert time.monotonic() < deadline, "it does not expire"
        time.sleep(0.05)
