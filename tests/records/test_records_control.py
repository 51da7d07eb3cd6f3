"""Control batches."""

import pytest

from ottla.records.builder import Record
from ottla.records.control import (
    ControlType,
    control_batch,
    control_type,
    leader_change_batch,
    read_end_txn_marker,
)
from ottla.records.errors import InvalidBatch
from ottla.records.header import read_header
from ottla.records.reader import read_records


def test_a_leader_change_is_an_untransactional_control_batch_of_its_epoch() -> None:
    batch = leader_change_batch(b"encoded", leader_epoch=4, timestamp_ms=99, base_offset=20)
    header = read_header(batch)
    assert header.is_control
    assert not header.is_transactional
    assert header.partition_leader_epoch == 4
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert read_records(batch) == [Record(20, 99, b"\x00\x00\x00\x02", b"encoded")]


def test_several_control_records_share_a_batch() -> None:
    kinds = [ControlType.SNAPSHOT_HEADER, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    batch = control_batch([(kind, bytes([kind])) for kind in kinds], timestamp_ms=5)
    records = read_records(batch)
    assert [control_type(record) for record in records] == kinds
    assert [record.offset for record in records] == [0, 1, 2]


def test_a_type_from_the_future_is_none_rather_than_an_error() -> None:
    assert control_type(Record(0, 0, b"\x00\x01\x00\x63more", b"")) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_a_broken_control_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidBatch):
        control_type(Record(0, 0, key, b""))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x00\x00\x00", None),
        (b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00"),
    ],
)
def test_a_broken_marker_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(InvalidBatch):
        read_end_txn_marker(Record(0, 0, key, value))


def test_fields_that_a_later_version_appends_to_a_marker_are_ignored() -> None:
    record = Record(0, 0, b"\x00\x00\x00\x01", b"\x00\x01\x00\x00\x00\x07new")
    assert read_end_txn_marker(record) == (True, 7)
