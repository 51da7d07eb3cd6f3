"""Files made by Kafka are read here, and files made here are read by Kafka's own tool."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from storage_tools import (
    NOW_MS,
    TOPIC_ID,
    append,
    offset_for_timestamp,
    offset_of_max_timestamp,
    open_log,
    read_all,
)

from ottla.broker.storage.log import Log
from ottla.broker.storage.log_reading import aborted_transactions
from ottla.broker.storage.segments.transaction_index import AbortedTransaction
from ottla.config.topic import TopicConfig
from ottla.protocol.uuids import to_text
from ottla.records.builder import build_batch
from ottla.records.codec import Codec
from ottla.records.header import read_header
from ottla.records.record import Record

FIXTURES = Path(__file__).parent / "fixtures" / "kafka"
KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS", "")
FIRST_MS = 1_700_000_000_000
CONFIG = TopicConfig(segment_bytes=4000, index_interval_bytes=512, segment_index_bytes=4096)

needs_kafka = pytest.mark.skipif(
    not KAFKA_LIBS or shutil.which("java") is None,
    reason="needs java, and OTTLA_KAFKA_LIBS naming a folder with Kafka's jars",
)


def kafka_log(tmp_path: Path, state: str, partition: int, **options: int) -> Log:
    folder = tmp_path / state
    if not folder.exists():
        shutil.copytree(FIXTURES / state, folder)
    clean = state == "clean"
    return open_log(folder / f"fixture-{partition}", CONFIG, clean=clean, **options)


@pytest.mark.parametrize("state", ["clean", "unclean"])
def test_a_log_of_kafka_opens_with_every_record(tmp_path: Path, state: str) -> None:
    log = kafka_log(tmp_path, state, 0)
    assert (log.log_start_offset, log.end_offset) == (0, 210)
    assert [segment.base_offset for segment in log.segments] == [0, 65, 130]
    assert log.epochs.entries == [(0, 0)]
    assert log.topic_id is not None
    metadata = (tmp_path / state / "fixture-0" / "partition.metadata").read_text()
    assert to_text(log.topic_id) in metadata
    numbers = [*range(60), *range(150)]
    records = read_all(log, max_bytes=500)
    assert [record.offset for record in records] == list(range(210))
    assert [record.value for record in records] == [
        b"value-%04d-" % number + b"x" * 60 for number in numbers
    ]
    assert [record.timestamp for record in records] == [FIRST_MS + n * 1000 for n in numbers]
    assert records[0].headers == (("h", b"1"),)
    assert len(log.producers.producers) == 10


@pytest.mark.parametrize("state", ["clean", "unclean"])
def test_timestamps_are_found_in_a_log_of_kafka(tmp_path: Path, state: str) -> None:
    log = kafka_log(tmp_path, state, 0)
    for number in (0, 1, 17, 42, 59):
        assert offset_for_timestamp(log, FIRST_MS + number * 1000) == (
            FIRST_MS + number * 1000,
            number,
            0,
        )
    for number in (61, 100, 149):
        assert offset_for_timestamp(log, FIRST_MS + number * 1000 - 1) == (
            FIRST_MS + number * 1000,
            60 + number,
            0,
        )
    assert offset_of_max_timestamp(log) == (FIRST_MS + 149_000, 209, 0)


def test_recovery_builds_the_indexes_that_kafka_wrote(tmp_path: Path) -> None:
    for partition in (0, 1):
        kafka_log(tmp_path, "unclean", partition).close(clean=True)
        ours = tmp_path / "unclean" / f"fixture-{partition}"
        theirs = FIXTURES / "clean" / f"fixture-{partition}"
        for path in theirs.glob("*index"):
            assert (ours / path.name).read_bytes() == path.read_bytes(), path.name


def test_recovery_builds_the_producer_state_that_kafka_wrote(tmp_path: Path) -> None:
    for partition in (0, 1):
        kafka_log(tmp_path, "unclean", partition).close(clean=True)
        recovered = kafka_log(tmp_path, "unclean", partition)
        loaded = kafka_log(tmp_path, "clean", partition)
        assert {entry.to_snapshot() for entry in recovered.producers.producers.values()} == {
            entry.to_snapshot() for entry in loaded.producers.producers.values()
        }


@pytest.mark.parametrize("state", ["clean", "unclean"])
def test_aborted_transactions_of_kafka_are_known(tmp_path: Path, state: str) -> None:
    log = kafka_log(tmp_path, state, 1)
    producer_ids = list(log.producers.producers)
    assert len(producer_ids) == 1
    assert log.end_offset == 32
    aborted = aborted_transactions(log.segments, 0, 32)
    assert aborted == [
        AbortedTransaction(producer_ids[0], first, first + 3, first + 4)
        for first in (4, 12, 20, 28)
    ]
    assert log.producers.first_unstable_offset(32) is None


def test_a_log_of_kafka_goes_on_here(tmp_path: Path) -> None:
    log = kafka_log(tmp_path, "clean", 0)
    assert append(log, b"ours", epoch=1, timestamp=FIRST_MS + 150_000).base_offset == 210
    log.close(clean=True)
    again = kafka_log(tmp_path, "clean", 0)
    assert read_all(again)[-1].value == b"ours"
    assert again.epochs.entries == [(0, 0), (1, 210)]


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    command = [
        "java",
        "-cp",
        f"{KAFKA_LIBS}/*",
        "org.apache.kafka.tools.DumpLogSegments",
        "--files",
        ",".join(str(file) for file in files),
        *options,
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def write_log_for_kafka(folder: Path) -> Log:
    """Segments with all codecs, an idempotent producer, and a transaction of each outcome."""
    log = open_log(folder, CONFIG, topic_id=TOPIC_ID)
    for number in range(120):
        append(
            log,
            b"value-%d" % number + b"x" * 80,
            b"second",
            epoch=number // 50,
            timestamp=NOW_MS + number * 10,
            codec=Codec(number % 5),
            producer_id=number % 3,
            producer_epoch=0,
            base_sequence=number // 3 * 2,
        )
    for commit in (True, False):
        append(log, b"tx", epoch=2, producer_id=77, producer_epoch=1, transactional=True,
               base_sequence=int(not commit), timestamp=NOW_MS + 2000)  # fmt: skip
        record = Record(
            0, NOW_MS + 2000, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 5), ()
        )
        marker = bytearray(
            build_batch(
                [record], producer_id=77, producer_epoch=1, transactional=True, control=True
            )
        )
        log.append(marker, read_header(marker), 2, NOW_MS)
    return log


@needs_kafka
def test_kafkas_own_tool_finds_nothing_wrong_with_our_segments(tmp_path: Path) -> None:
    log = write_log_for_kafka(tmp_path / "t-0")
    assert len(log.segments) > 3
    log.close(clean=True)
    segments = sorted((tmp_path / "t-0").glob("*.log"))
    text = dump(*segments, options=("--deep-iteration", "--print-data-log"))
    offsets = [int(found) for found in re.findall(r"\| offset: (\d+)", text)]
    assert offsets == list(range(log.end_offset))
    assert "isvalid: false" not in text
    assert text.count("isvalid: true") == 124
    assert "value-119" in text
    assert "endTxnMarker: ABORT" in text
    assert "endTxnMarker: COMMIT" in text


@needs_kafka
def test_kafkas_own_tool_finds_nothing_wrong_with_our_indexes(tmp_path: Path) -> None:
    log = write_log_for_kafka(tmp_path / "t-0")
    log.close(clean=True)
    folder = tmp_path / "t-0"
    offset_indexes, time_indexes = (
        sorted(folder.glob("*.index")),
        sorted(folder.glob("*.timeindex")),
    )
    assert sum(path.stat().st_size for path in offset_indexes) > 10 * 8
    for option in ("--index-sanity-check", "--verify-index-only"):
        text = dump(*offset_indexes, *time_indexes, options=(option,))
        if option == "--index-sanity-check":
            filled = [path for path in (*offset_indexes, *time_indexes) if path.stat().st_size]
            assert text.count("passed sanity check") == len(filled)
        for complaint in ("Mismatches", "not match", "out of order", "not found"):
            assert complaint not in text, text


@needs_kafka
def test_kafkas_own_tool_reads_our_snapshots_and_transaction_index(tmp_path: Path) -> None:
    log = write_log_for_kafka(tmp_path / "t-0")
    end_offset = log.end_offset
    log.close(clean=True)
    folder = tmp_path / "t-0"
    text = dump(folder / f"{end_offset:020d}.snapshot")
    for producer_id in (0, 1, 2, 77):
        assert f"producerId: {producer_id} " in text
    text = dump(*folder.glob("*.txnindex"))
    assert f"producerId: 77 firstOffset: {end_offset - 2} lastOffset: {end_offset - 1}" in text
