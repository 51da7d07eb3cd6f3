"""The small files beside the segments, against bytes laid out by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.broker.storage.dirs.checkpoints import RECOVERY_POINTS, OffsetCheckpoint
from ottla.broker.storage.dirs.clean_shutdown import marked_epoch, take_marker, write_marker
from ottla.broker.storage.dirs.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.broker.storage.dirs.partition_metadata import read_topic_id, write_topic_id
from ottla.broker.storage.errors import CorruptFile
from ottla.broker.storage.leader_epochs import LeaderEpochs
from ottla.broker.storage.names import (
    offset_in_name,
    offset_name,
    parse_partition_dir_name,
    retired_dir_name,
)
from ottla.broker.storage.producers.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from ottla.protocol.uuids import from_text
from ottla.records.crc import crc32c
from ottla.runtime.os_disk import OsDisk

DISK = OsDisk()
KAFKA_ID = "zjoJcGDaSZiQkl9CXsgB1g"


def test_a_producer_snapshot_has_version_crc_count_and_entries() -> None:
    entry = SnapshotEntry(
        producer_id=5,
        producer_epoch=2,
        last_sequence=9,
        last_offset=100,
        offset_delta=3,
        timestamp=1_700_000_000_000,
        coordinator_epoch=-1,
        transaction_first_offset=97,
    )
    body = bytes.fromhex(
        "00000001 0000000000000005 0002 00000009 0000000000000064 00000003"
        "0000018bcfe56800 ffffffff 0000000000000061"
    )
    data = encode_snapshot([entry])
    assert data == bytes.fromhex("0001") + struct.pack(">I", crc32c(body)) + body
    assert decode_snapshot("x", data) == [entry]


def test_a_snapshot_damaged_in_any_byte_is_refused() -> None:
    data = encode_snapshot([SnapshotEntry(1, 2, 3, 4, 5, 6, 7, 8)])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(CorruptFile):
            decode_snapshot("x", bytes(damaged))
        with pytest.raises(CorruptFile):
            decode_snapshot("x", data[:position])


def test_leader_epochs_are_text_with_version_and_count(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(3, 120)
    assert epochs.dirty
    epochs.write(DISK, str(path))
    assert path.read_text() == "0\n2\n0 0\n3 120\n"
    assert LeaderEpochs.read(DISK, str(path)).entries == [(0, 0), (3, 120)]


def test_an_epoch_is_noted_only_once_and_contradictions_go() -> None:
    epochs = LeaderEpochs()
    epochs.assign(1, 10)
    epochs.assign(1, 15)
    assert epochs.entries == [(1, 10)]
    epochs.assign(3, 30)
    epochs.assign(2, 20)
    assert epochs.entries == [(1, 10), (2, 20)]
    epochs.assign(5, 20)
    assert epochs.entries == [(1, 10), (5, 20)]


def test_end_of_an_epoch_is_where_the_next_begins() -> None:
    epochs = LeaderEpochs([(2, 10), (4, 20), (6, 30)])
    assert epochs.end_offset_for(6, 45) == (6, 45)
    assert epochs.end_offset_for(4, 45) == (4, 30)
    assert epochs.end_offset_for(5, 45) == (4, 30)
    assert epochs.end_offset_for(1, 45) == (1, 10)
    assert epochs.end_offset_for(7, 45) == (-1, -1)
    assert epochs.end_offset_for(-1, 45) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 45) == (-1, -1)


def test_epochs_are_cut_at_both_ends() -> None:
    epochs = LeaderEpochs([(2, 10), (4, 20), (6, 30)])
    epochs.truncate_from_start(25)
    assert epochs.entries == [(4, 25), (6, 30)]
    epochs.truncate_from_end(30)
    assert epochs.entries == [(4, 25)]
    assert epochs.latest == 4
    assert epochs.epoch_of_offset(27) == 4
    assert epochs.epoch_of_offset(24) == -1
    epochs.truncate_from_end(25)
    assert epochs.latest == -1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ends before"),
        ("0\n", "ends before"),
        ("1\n0\n", "version 1"),
        ("0\n2\n0 0\n", "the 2 entries"),
        ("0\n1\n0\n", "of 2 words"),
        ("0\nx\n", "'x'"),
        ("0\n1\n0 x\n", "'x'"),
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(CorruptFile, match=reason):
        LeaderEpochs.read(DISK, str(path))


def test_an_offset_checkpoint_lists_topic_partition_offset(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(DISK, str(tmp_path), RECOVERY_POINTS)
    assert checkpoint.read() == {}
    checkpoint.write({("a", 0): 5, ("b-c", 12): 7})
    path = tmp_path / "recovery-point-offset-checkpoint"
    assert path.read_text() == "0\n2\na 0 5\nb-c 12 7\n"
    assert checkpoint.read() == {("a", 0): 5, ("b-c", 12): 7}


def test_an_unchanged_checkpoint_is_not_written_again(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(DISK, str(tmp_path), RECOVERY_POINTS)
    checkpoint.write({("a", 0): 5})
    (tmp_path / RECOVERY_POINTS).unlink()
    checkpoint.write({("a", 0): 5})
    assert not (tmp_path / RECOVERY_POINTS).exists()
    checkpoint.write({("a", 0): 6})
    assert checkpoint.read() == {("a", 0): 6}


def test_partition_metadata_holds_the_topic_id_as_text(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    write_topic_id(DISK, str(path), from_text(KAFKA_ID))
    assert path.read_text() == f"version: 0\ntopic_id: {KAFKA_ID}"
    assert read_topic_id(DISK, str(path)) == from_text(KAFKA_ID)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "damaged: it has no line `version: ...`"),
        ("\0" * 40, "damaged: it has no line `version: ...`"),
        ("version: 0", "damaged: it has no line `topic_id: ...`"),
        ("version: 1\ntopic_id: " + KAFKA_ID, "line 1: version '1' is unknown: expected 0"),
        ("version: x\ntopic_id: " + KAFKA_ID, "line 1: version 'x' is unknown: expected 0"),
        (
            "version: 0\ntopic_id: a b",
            "line 2: the topic id is not a uuid in url-safe base64: 'a b'",
        ),
        (
            "version: 0\ntopic_id: abcd",
            "line 2: the topic id is not a uuid: 'abcd' holds 3 bytes instead of 16",
        ),
        ("version: 0\ntopic_id: " + "A" * 22, "line 2: the topic id is zero"),
    ],
)
def test_damaged_partition_metadata_is_refused_in_plain_words(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text(text)
    with pytest.raises(CorruptFile) as error:
        read_topic_id(DISK, str(path))
    assert str(error.value) == f"{path}: {told}"


def test_meta_properties_of_kafka_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sat Jan 04 12:00:00 UTC 2025\n"
        f"cluster.id=5L6g3nShT-eMCtK--X86sw\ndirectory.id={KAFKA_ID}\nnode.id=3\nversion=1\n"
    )
    expected = MetaProperties("5L6g3nShT-eMCtK--X86sw", 3, from_text(KAFKA_ID))
    assert read_meta_properties(DISK, str(tmp_path)) == expected
    write_meta_properties(DISK, str(tmp_path), expected)
    assert read_meta_properties(DISK, str(tmp_path)) == expected


def test_meta_properties_of_another_version_are_refused(tmp_path: Path) -> None:
    assert read_meta_properties(DISK, str(tmp_path)) is None
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    with pytest.raises(CorruptFile, match="version 0"):
        read_meta_properties(DISK, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "damaged: it has no line `version=...`"),
        ("version=1\nnode.id=1\n", "damaged: it has no line `cluster.id=...`"),
        ("version=1\ncluster.id=c\nnode.id=one\n", "node.id 'one' is no number"),
        (
            "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=abcd\n",
            "directory.id is not a uuid: 'abcd' holds 3 bytes instead of 16",
        ),
        ("version=1\ncluster.id=\\u12\n", "line 2: \\u12 must have four hexadecimal digits"),
    ],
)
def test_damaged_meta_properties_are_refused_in_plain_words(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(text)
    with pytest.raises(CorruptFile) as error:
        read_meta_properties(DISK, str(tmp_path))
    assert str(error.value) == f"{path}: {told}"


def test_the_clean_shutdown_marker_answers_once(tmp_path: Path) -> None:
    assert not take_marker(DISK, str(tmp_path))
    write_marker(DISK, str(tmp_path), broker_epoch=12)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":12}'
    assert marked_epoch(DISK, str(tmp_path)) == 12
    assert take_marker(DISK, str(tmp_path))
    assert not take_marker(DISK, str(tmp_path))
    assert marked_epoch(DISK, str(tmp_path)) == -1


def test_names() -> None:
    assert offset_name(42, ".log") == "00000000000000000042.log"
    assert offset_in_name("00000000000000000042.log", ".log") == 42
    assert offset_in_name("00000000000000000042.log.deleted", ".log") is None
    assert offset_in_name("leader-epoch-checkpoint", ".log") is None
    assert parse_partition_dir_name("a-b-12") == ("a-b", 12)
    assert parse_partition_dir_name("a-b") is None
    assert parse_partition_dir_name("t-0.abc-delete") is None
    assert parse_partition_dir_name("-1") is None
    assert retired_dir_name("t", 3, "ab" * 16, "-delete") == "t-3." + "ab" * 16 + "-delete"
    assert len(retired_dir_name("t" * 249, 3, "ab" * 16, "-stray")) == 255
