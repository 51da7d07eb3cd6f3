from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_cases import FOLDER, config, partition, topic

from ottla.broker.metadata.records import decode_record, encode_record, record_class
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message


def test_a_record_has_the_bytes_that_kafka_writes():
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    # frame version, record type 12, version 0; compact string of 16 bytes; int16; no tagged fields
    assert encode_record(record) == b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00"


@pytest.mark.parametrize(
    "record", [topic(1), partition(1, 3), config("t", "a", "b"), config("t", "a", None)]
)
def test_records_come_back_as_they_were_written(record: Message):
    assert decode_record(encode_record(record)) == record
    assert decode_record(memoryview(encode_record(record))) == record


@pytest.mark.parametrize(
    "name",
    [
        "RegisterBrokerRecord",
        "UserScramCredentialRecord",
        "AccessControlEntryRecord",
        "BeginTransactionRecord",
        "ZkMigrationStateRecord",
        "ClearElrRecord",
    ],
)
def test_every_kind_of_record_is_known(name: str):
    record = record_class(name)()
    assert decode_record(encode_record(record)) == record


def test_older_versions_are_read():
    # PartitionRecord in version 0, which had no folders.
    value = b"\x01\x03\x00" + (5).to_bytes(4, "big") + FOLDER + b"\x02\x00\x00\x00\x01" * 2
    value += b"\x01\x01" + (1).to_bytes(4, "big") + bytes(8) + b"\x00"
    record = decode_record(value)
    assert (record.partition_id, record.replicas, record.directories) == (5, [1], [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01\x02",
        b"\x00\x02\x00",
        b"\x01\x0d\x00",
        b"\x01\x02\x01",
        b"\x01\xff\x01\x00",
        encode_record(topic(1)) + b"\x00",
        encode_record(topic(1))[:-1],
    ],
)
def test_what_is_no_known_record_is_refused(value: bytes):
    with pytest.raises(MalformedMessage):
        decode_record(value)


@given(st.binary(max_size=80))
def test_random_bytes_are_refused_or_understood(value: bytes):
    try:
        decode_record(value)
    except MalformedMessage:
        pass
