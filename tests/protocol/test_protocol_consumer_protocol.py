"""The bytes that consumers exchange through JoinGroup and SyncGroup."""

import struct

import pytest

from ottla.protocol import consumer_protocol
from ottla.protocol.embedded import consumer_protocol_assignment as assignments
from ottla.protocol.embedded import consumer_protocol_subscription as subscriptions
from ottla.protocol.errors import MalformedMessage

SUBSCRIPTION = subscriptions.ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"u",
    owned_partitions=[subscriptions.TopicPartition(topic="a", partitions=[0, 2])],
    generation_id=7,
    rack_id="r",
)
ASSIGNMENT = assignments.ConsumerProtocolAssignment(
    assigned_partitions=[assignments.TopicPartition(topic="a", partitions=[1])]
)


@pytest.mark.parametrize("version", range(4))
def test_every_version_is_read_back_with_the_fields_it_has(version: int) -> None:
    data = consumer_protocol.write(SUBSCRIPTION, version)
    read = consumer_protocol.read_subscription(data)
    assert consumer_protocol.read_version(data) == version
    assert (read.topics, read.user_data) == (["a", "b"], b"u")
    assert read.owned_partitions == (SUBSCRIPTION.owned_partitions if version >= 1 else [])
    assert read.generation_id == (7 if version >= 2 else -1)
    assert read.rack_id == ("r" if version >= 3 else None)
    assert consumer_protocol.read_topics(data) == ["a", "b"]
    data = consumer_protocol.write(ASSIGNMENT, version)
    assert consumer_protocol.read_assignment(data) == ASSIGNMENT


def test_a_future_version_is_read_as_the_newest_known_one() -> None:
    data = struct.pack(">h", 9) + consumer_protocol.write(SUBSCRIPTION)[2:] + b"more"
    assert consumer_protocol.read_version(data) == consumer_protocol.VERSION_MAX
    assert consumer_protocol.read_subscription(data) == SUBSCRIPTION


def test_an_empty_assignment_has_no_partitions() -> None:
    assert consumer_protocol.read_assignment(b"").assigned_partitions == []


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\x09"])
def test_malformed_bytes_are_refused(data: bytes) -> None:
    for read in (
        consumer_protocol.read_subscription,
        consumer_protocol.read_topics,
        consumer_protocol.read_assignment,
    ):
        with pytest.raises(MalformedMessage):
            read(data)


def test_topics_are_read_although_later_fields_are_malformed() -> None:
    data = consumer_protocol.write(SUBSCRIPTION)[:-1]
    assert consumer_protocol.read_topics(data) == ["a", "b"]
    with pytest.raises(MalformedMessage):
        consumer_protocol.read_subscription(data)
