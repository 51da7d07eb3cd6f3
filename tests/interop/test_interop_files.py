"""Our files, read by others: a reader written here from Kafka's documentation, and Kafka's own."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import crc32c
import pytest
from bench.brokers import Broker, run_java
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from broker_harness import MakeBroker
from ottla.broker.metadata.batches import encode_batch
from ottla.broker.metadata.records import encode_record
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from ottla.protocol.metadata_records.partition_record import PartitionRecord

BATCH = struct.Struct(">qiibIhiqqqhii")
RECORDS = 3000
START_MS = 1_700_000_000_000

pytestmark = pytest.mark.ottla_only


class Batch(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int


def batches(data: bytes) -> Iterator[tuple[int, Batch, bytes]]:
    """(position, header, records) of every batch of a segment, checksums verified."""
    position = 0
    while position < len(data):
        header = Batch(*BATCH.unpack_from(data, position))
        end = position + 12 + header.length
        assert end <= len(data), "the segment ends inside a batch"
        assert crc32c.crc32c(data[position + 21 : end]) == header.crc
        yield position, header, data[position + 61 : end]
        position = end


def varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position


def records(header: Batch, data: bytes) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """(offset, timestamp, key, value) of the records of an uncompressed batch."""
    position = 0
    for _ in range(header.count):
        length, position = varint(data, position)
        end = position + length
        timestamp, position = varint(data, position + 1)
        offset, position = varint(data, position)
        fields: list[bytes | None] = []
        for _ in range(2):
            size, position = varint(data, position)
            fields.append(None if size < 0 else data[position : position + size])
            position += max(size, 0)
        yield header.base_offset + offset, header.base_timestamp + timestamp, *fields
        position = end
    assert position == len(data)


@pytest.fixture
def written(fresh_broker: MakeBroker, topic: str) -> tuple[Broker, Path]:
    """A stopped broker, and the folder of a partition with several segments."""
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.address})
    config = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
    admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.address, "batch.size": 8000, "linger.ms": 1})
    for number in range(RECORDS):
        stamp = START_MS + number
        producer.produce(topic, b"v%06d" % number * 100, b"%d" % number, timestamp=stamp)
    assert producer.flush(30) == 0
    broker.stop()
    return broker, broker.data / f"{topic}-0"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def test_interop_segments_hold_every_record_at_its_offset(written: tuple[Broker, Path]) -> None:
    _, folder = written
    expected = 0
    assert len(segments(folder)) > 1
    for path in segments(folder):
        assert path.stem == f"{expected:020d}"
        for _, header, data in batches(path.read_bytes()):
            assert (header.magic, header.attributes, header.leader_epoch) == (2, 0, 0)
            assert header.last_offset_delta == header.count - 1
            stamps = []
            for offset, timestamp, key, value in records(header, data):
                assert (offset, timestamp) == (expected, START_MS + expected)
                assert (key, value) == (b"%d" % offset, b"v%06d" % offset * 100)
                stamps.append(timestamp)
                expected += 1
            assert header.max_timestamp == max(stamps)
    assert expected == RECORDS


def test_interop_indexes_point_at_batches_and_have_no_padding(
    written: tuple[Broker, Path],
) -> None:
    _, folder = written
    for path in segments(folder):
        base = int(path.stem)
        places = {}
        stamps = {}
        for position, header, _ in batches(path.read_bytes()):
            places[header.base_offset + header.last_offset_delta] = position
            stamps[header.base_offset + header.last_offset_delta] = header.max_timestamp
        offsets = list(struct.iter_unpack(">ii", path.with_suffix(".index").read_bytes()))
        assert offsets == sorted(set(offsets))
        assert len(offsets) >= path.stat().st_size // 20_000
        # An entry holds the last offset of a batch and where that batch begins.
        for relative, position in offsets:
            assert places[base + relative] == position
        times = list(struct.iter_unpack(">qi", path.with_suffix(".timeindex").read_bytes()))
        assert times == sorted(times)
        assert times
        for timestamp, relative in times:
            assert timestamp == START_MS + base + relative
        assert times[-1][0] == max(stamps.values())


def test_interop_side_files_have_the_documented_text(
    written: tuple[Broker, Path], topic: str
) -> None:
    broker, folder = written
    epochs = (folder / "leader-epoch-checkpoint").read_text().splitlines()
    assert epochs == ["0", "1", "0 0"]
    described = (folder / "partition.metadata").read_text().splitlines()
    assert described[0] == "version: 0"
    assert re.fullmatch(r"topic_id: [A-Za-z0-9_-]{22}", described[1])
    properties = (broker.data / "meta.properties").read_text()
    for key in ("version=1", "node.id=", "cluster.id=", "directory.id="):
        assert key in properties
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        lines = (broker.data / name).read_text().splitlines()
        assert lines[0] == "0"
        assert int(lines[1]) == len(lines) - 2
    recovery = (broker.data / "recovery-point-offset-checkpoint").read_text()
    assert f"{topic} 0 {RECORDS}" in recovery.splitlines()
    assert (broker.data / ".kafka_cleanshutdown").exists()


def dump(libs: Path, *arguments: str) -> str:
    return run_java(libs, "org.apache.kafka.tools.DumpLogSegments", *arguments).stdout


def test_interop_kafka_dump_log_reads_our_segments_and_indexes(
    written: tuple[Broker, Path], kafka_libs: Path
) -> None:
    _, folder = written
    for path in segments(folder):
        names = ",".join(
            str(path.with_suffix(suffix)) for suffix in (".log", ".index", ".timeindex")
        )
        shown = dump(kafka_libs, "--deep-iteration", "--print-data-log", "--files", names)
        assert "isvalid: true" in shown
        assert "isvalid: false" not in shown
        for complaint in (
            "Mismatches",
            "Non-consecutive",
            "out of order",
            "not found",
            "Exception",
        ):
            assert complaint not in shown
        count = sum(header.count for _, header, _ in batches(path.read_bytes()))
        assert len(re.findall(r"^\| offset:", shown, re.MULTILINE)) == count


def test_interop_kafka_dump_log_finds_the_indexes_sane(
    written: tuple[Broker, Path], kafka_libs: Path
) -> None:
    _, folder = written
    for path in segments(folder):
        index = str(path.with_suffix(".index"))
        assert "passed sanity check" in dump(kafka_libs, "--index-sanity-check", "--files", index)


def test_interop_kafka_dump_log_reads_our_metadata_log(
    written: tuple[Broker, Path], kafka_libs: Path, topic: str
) -> None:
    broker, _ = written
    log = segments(broker.data / "__cluster_metadata-0")[0]
    shown = dump(kafka_libs, "--cluster-metadata-decoder", "--files", str(log))
    assert "isvalid: false" not in shown
    assert f'"name":"{topic}"' in shown
    assert '"type":"PARTITION_RECORD"' in shown


def test_interop_kafka_dump_log_reads_our_producer_snapshots(
    fresh_broker: MakeBroker, kafka_libs: Path, topic: str
) -> None:
    broker = fresh_broker()
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    broker.stop()
    (snapshot,) = (broker.data / f"{topic}-0").glob("*.snapshot")
    shown = dump(kafka_libs, "--files", str(snapshot))
    assert re.search(r"producerId: \d+ producerEpoch: 0", shown), shown


def test_interop_a_cut_and_noisy_partition_is_recovered(
    written: tuple[Broker, Path], topic: str
) -> None:
    """The tail torn, one index gone, one full of noise: whole batches stay, and it goes on."""
    broker, folder = written
    (broker.data / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (broker.data / name).unlink()
    *first, last = segments(folder)
    data = last.read_bytes()
    ends = [position for position, _, _ in batches(data)]
    last.write_bytes(data[: ends[-1] + 30])
    first[0].with_suffix(".index").unlink()
    first[0].with_suffix(".timeindex").write_bytes(b"noise!" * 100)
    *_, (_, cut, _) = batches(data)
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.address})
    place = TopicPartition(topic, 0)
    latest = admin.list_offsets({place: OffsetSpec.latest()})[place].result(30)
    assert latest.offset == cut.base_offset
    found = admin.list_offsets({place: OffsetSpec.for_timestamp(START_MS + 700)})[place].result(30)
    assert found.offset == 700
    broker.stop()
    test_interop_indexes_point_at_batches_and_have_no_padding(written)
    assert re.search(topic, broker.output), "the recovery should be told in the log"


def test_interop_kafka_dump_log_reads_who_is_eligible(tmp_path: Path, kafka_libs: Path) -> None:
    records = [
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        PartitionRecord(partition_id=0, replicas=[1, 2], eligible_leader_replicas=[2]),
        PartitionChangeRecord(isr=[], eligible_leader_replicas=[1, 2], last_known_elr=[1]),
    ]
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_batch([encode_record(record) for record in records], 1))
    shown = dump(kafka_libs, "--cluster-metadata-decoder", "--files", str(log))
    assert '"eligibleLeaderReplicas":[2]' in shown
    assert '"eligibleLeaderReplicas":[1,2],"lastKnownElr":[1]' in shown
