"""Records that kio lacks: they survive the round trip, and some were written by Kafka itself."""

from __future__ import annotations

from random import Random

import pytest
from protocol_samples import (
    RECORD_PACKAGES,
    joined,
    message_classes,
    random_struct,
    versions_of,
)

from ottla.protocol.codec import decoder, encoder
from ottla.protocol.control_records.leader_change_message import LeaderChangeMessage, Voter
from ottla.protocol.coordinator_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.coordinator_records.share_snapshot import ShareSnapshotValue, StateBatch
from ottla.protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.metadata_records.partition_record import PartitionRecord
from ottla.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    RegisterBrokerRecord,
)
from ottla.protocol.metadata_records.topic_record import TopicRecord
from ottla.protocol.schema import Message

ID = bytes(range(1, 17))
ID_HEX = ID.hex()


@pytest.mark.parametrize(
    "cls", list(message_classes(*RECORD_PACKAGES)), ids=lambda cls: cls.__name__
)
def test_a_stored_record_decodes_to_what_was_encoded(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        for _ in range(10):
            record = random_struct(cls, version, random)
            data = joined(encoder(cls, version)(record))
            assert decoder(cls, version)(data, 0) == (record, len(data))


def consumer_member(classic: ClassicMemberMetadata | None) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="h",
        subscribed_topic_names=["a"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=1,
        server_assignor="uniform",
        classic_member_metadata=classic,
    )


# Made once with the classes of Kafka 4.3.0: (version, message, its bytes)
GOLDEN: list[tuple[int, Message, str]] = [
    (0, TopicRecord(name="orders", topic_id=ID), f"076f7264657273{ID_HEX}00"),
    (
        2,
        PartitionRecord(
            partition_id=3,
            topic_id=ID,
            replicas=[1, 2, 3],
            isr=[1, 2],
            leader=1,
            leader_epoch=5,
            partition_epoch=7,
            directories=[ID, ID, ID],
            eligible_leader_replicas=[3],
            last_known_elr=[],
        ),
        f"00000003{ID_HEX}0400000001000000020000000303000000010000000201010000000100000005"
        f"0000000704{ID_HEX}{ID_HEX}{ID_HEX}0201050200000003020101",
    ),
    (
        0,
        PartitionChangeRecord(partition_id=3, topic_id=ID, leader=2, isr=[2]),
        f"00000003{ID_HEX}0200050200000002010400000002",
    ),
    (
        0,
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        "02076f72646572730d726574656e74696f6e2e6d730000",
    ),
    (
        3,
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=9,
            end_points=[
                BrokerEndpoint(name="PLAINTEXT", host="localhost", port=50000, security_protocol=0)
            ],
            rack="r1",
            fenced=True,
            log_dirs=[ID],
        ),
        f"0000000100{ID_HEX}0000000000000009020a504c41494e544558540a6c6f63616c686f7374c350"
        f"00000001037231010001001102{ID_HEX}",
    ),
    (
        0,
        OffsetCommitKey(group="g", topic="orders", partition=4),
        "00016700066f726465727300000004",
    ),
    (
        3,
        OffsetCommitValue(
            offset=42, leader_epoch=3, metadata="m", commit_timestamp=1_700_000_000_000
        ),
        "000000000000002a0000000300016d0000018bcfe56800",
    ),
    (
        4,
        OffsetCommitValue(
            offset=42, leader_epoch=3, metadata="m", commit_timestamp=1_700_000_000_000, topic_id=ID
        ),
        f"000000000000002a00000003026d0000018bcfe56800010010{ID_HEX}",
    ),
    (
        3,
        GroupMetadataValue(
            protocol_type="consumer",
            generation=2,
            protocol="range",
            leader="m1",
            current_state_timestamp=5,
            members=[
                MemberMetadata(
                    member_id="m1",
                    group_instance_id=None,
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout=300_000,
                    session_timeout=45_000,
                    subscription=b"\1\2",
                    assignment=b"\3",
                )
            ],
        ),
        "0008636f6e73756d657200000002000572616e676500026d3100000000000000050000000100026d31ffff"
        "00016300022f68000493e00000afc80000000201020000000103",
    ),
    (
        0,
        consumer_member(None),
        "000002630268020261000000000108756e69666f726d01000100",
    ),
    (
        0,
        consumer_member(ClassicMemberMetadata(session_timeout_ms=9)),
        "000002630268020261000000000108756e69666f726d01000701000000090100",
    ),
    (0, TransactionLogKey(transactional_id="tx"), "00027478"),
    (
        0,
        TransactionLogValue(
            producer_id=7,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_status=1,
            transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=[0, 1])],
            transaction_last_update_timestamp_ms=11,
            transaction_start_timestamp_ms=10,
        ),
        "000000000000000700010000ea60010000000100066f726465727300000002000000000000000100000000"
        "0000000b000000000000000a",
    ),
    (
        1,
        TransactionLogValue(
            producer_id=7,
            previous_producer_id=6,
            next_producer_id=8,
            producer_epoch=1,
            next_producer_epoch=2,
            transaction_timeout_ms=60_000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=11,
            transaction_start_timestamp_ms=10,
            client_transaction_version=2,
        ),
        "000000000000000700010000ea600000000000000000000b000000000000000a0400080000000000000006"
        "010800000000000000080202000203020002",
    ),
    (
        0,
        ShareSnapshotValue(
            snapshot_epoch=1,
            state_epoch=2,
            leader_epoch=3,
            start_offset=4,
            state_batches=[
                StateBatch(first_offset=4, last_offset=6, delivery_state=2, delivery_count=1)
            ],
        ),
        "00000001000000020000000300000000000000040000000000000000000000000000000002000000000000"
        "000400000000000000060200010000",
    ),
    (
        0,
        LeaderChangeMessage(
            version=0, leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[Voter(voter_id=1)]
        ),
        "00000000000102000000010002000000010000",
    ),
]


@pytest.mark.parametrize(
    ("version", "message", "expected"),
    GOLDEN,
    ids=[
        f"{type(message).__name__}-v{version}-{i}" for i, (version, message, _) in enumerate(GOLDEN)
    ],
)
def test_the_bytes_are_those_that_kafka_wrote(
    version: int, message: Message, expected: str
) -> None:
    data = bytes.fromhex(expected)
    assert joined(encoder(type(message), version)(message)).hex() == expected
    assert decoder(type(message), version)(data, 0) == (message, len(data))
