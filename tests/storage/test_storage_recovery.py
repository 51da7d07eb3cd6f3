"""What is left after a crash, and after damage to any file."""

from __future__ import annotations

import logging
import os
import random
import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from storage_tools import (
    NOW_MS,
    TOPIC_ID,
    append,
    file_names,
    make_batch,
    offset_for_timestamp,
    offset_of_max_timestamp,
    open_log,
    values_of,
)

from ottla.broker.storage.errors import CorruptLog, UnsupportedFormat
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.records.header import batches

SMALL = TopicConfig(segment_bytes=2000, index_interval_bytes=150, segment_index_bytes=4096)
RECOVERY = "ottla.storage.recovery"


def written(directory: Path, count: int = 40, **options) -> list[tuple[int, bytes | None]]:
    """A log as a killed process leaves it: nothing closed. Its records."""
    log = open_log(directory, SMALL, topic_id=TOPIC_ID, **options)
    for number in range(count):
        append(
            log,
            b"%05d" % number + b"." * (number * 7 % 90),
            b"second",
            epoch=number // 10,
            timestamp=NOW_MS + number,
        )
    return values_of(log)


def closed(directory: Path, count: int = 40) -> list[tuple[int, bytes | None]]:
    values = written(directory, count)
    log = open_log(directory, SMALL, clean=False)
    log.close(clean=True)
    return values


def assert_usable(log: Log, expected: list[tuple[int, bytes | None]]) -> None:
    """Reads from every offset, by every index, and appends."""
    assert values_of(log) == expected
    for offset in range(log.log_start_offset, log.end_offset):
        assert values_of(log, offset=offset, max_bytes=300) == expected[offset:]
    for segment in log.segments:
        if segment.size:
            segment.offset_index.check(segment.size)
    if expected:
        youngest = offset_of_max_timestamp(log)
        assert youngest is not None
        assert youngest[1] == expected[-1][0]
    assert append(log, b"after", epoch=99).base_offset == log.end_offset - 1
    assert values_of(log)[-1][1] == b"after"


def test_an_unclosed_log_is_recovered_whole(tmp_path: Path) -> None:
    expected = written(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert log.recovery_point == 0
    log.settle()
    assert log.recovery_point == 80
    assert log.epochs.entries == [(epoch, epoch * 20) for epoch in range(4)]
    assert log.topic_id == TOPIC_ID
    assert_usable(log, expected)


def test_recovered_indexes_are_the_same_as_written_ones(tmp_path: Path) -> None:
    written(tmp_path / "t-0")
    open_log(tmp_path / "t-0", SMALL, clean=False).close(clean=True)
    recovered = {
        name: (tmp_path / "t-0" / name).read_bytes()
        for name in file_names(tmp_path / "t-0")
        if name.endswith("index")
    }
    log = open_log(tmp_path / "u-0", SMALL)
    for number in range(40):
        append(
            log,
            b"%05d" % number + b"." * (number * 7 % 90),
            b"second",
            timestamp=NOW_MS + number,
        )
    log.close(clean=True)
    for name, content in recovered.items():
        assert (tmp_path / "u-0" / name).read_bytes() == content, name


def test_a_log_cut_at_any_byte_keeps_every_whole_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / "t-0", 9)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = path.read_bytes()
    sizes = [header.size for header, _ in batches(data)]
    assert sum(sizes) == len(data)
    starts = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    pristine = tmp_path / "pristine"
    shutil.copytree(tmp_path / "t-0", pristine)
    for cut in range(starts[-3], len(data)):
        shutil.rmtree(tmp_path / "t-0")
        shutil.copytree(pristine, tmp_path / "t-0")
        os.truncate(path, cut)
        caplog.clear()
        with caplog.at_level(logging.WARNING, RECOVERY):
            log = open_log(tmp_path / "t-0", SMALL, clean=False)
        whole = sum(1 for start in starts[1:] if start <= cut)
        assert log.end_offset == whole * 2
        assert path.stat().st_size == starts[whole]
        assert len(values_of(log)) == whole * 2
        if cut != starts[whole]:
            assert "Cut" in caplog.text
        log.close(clean=False)


@pytest.mark.parametrize("junk", [b"\0" * 500, b"\xff" * 500, random.Random(3).randbytes(500)])
def test_junk_after_the_last_batch_is_cut(tmp_path: Path, junk: bytes) -> None:
    expected = written(tmp_path / "t-0", 9)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(junk)
    log = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert path.stat().st_size == size
    assert_usable(log, expected)


def test_a_flipped_bit_ends_the_log_there_and_drops_later_segments(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = written(tmp_path / "t-0")
    names = [name for name in file_names(tmp_path / "t-0") if name.endswith(".log")]
    assert len(names) >= 3
    path = tmp_path / "t-0" / names[1]
    data = bytearray(path.read_bytes())
    second = next(batches(data))[0].size
    data[second + 70] ^= 1
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, RECOVERY):
        log = open_log(tmp_path / "t-0", SMALL, clean=False)
    kept = int(names[1][:20]) + 2
    assert log.end_offset == kept
    assert "checksum" in caplog.text
    assert f"Dropping {len(names) - 2} segments" in caplog.text
    assert log.epochs.entries[-1][1] < kept
    assert_usable(log, expected[:kept])
    log.close(clean=True)
    assert values_of(open_log(tmp_path / "t-0", SMALL))[:kept] == expected[:kept]
    assert not [name for name in file_names(tmp_path / "t-0") if name.endswith(".deleted")]


def test_offsets_that_go_back_end_the_log(tmp_path: Path) -> None:
    written(tmp_path / "t-0", 3)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    with path.open("ab") as file:
        file.write(make_batch([b"again"], base_offset=1))
    log = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert log.end_offset == 6


def test_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    """The proof: damage there goes unnoticed until the damaged place itself is read."""
    expected = written(tmp_path / "t-0")
    first = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    log = open_log(tmp_path / "t-0", SMALL, clean=False, recovery_point=79)
    assert log.end_offset == 80
    assert values_of(log, offset=40) == expected[40:]


def test_damage_to_flushed_data_is_told_to_the_reader(tmp_path: Path) -> None:
    closed(tmp_path / "t-0")
    first = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    second = next(batches(data))[0].size
    data[second + 8 : second + 12] = b"\xff\xff\xff\xff"
    first.write_bytes(data)
    log = open_log(tmp_path / "t-0", SMALL)
    with pytest.raises(CorruptLog):
        log.read(3, 100, log.end_offset)
    assert values_of(log, offset=60) != []


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_deleted_indexes_are_rebuilt(
    tmp_path: Path, suffix: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    expected = closed(tmp_path / "t-0")
    before = {name: (tmp_path / "t-0" / name).read_bytes() for name in file_names(tmp_path / "t-0")}
    for name in before:
        if name.endswith(suffix):
            (tmp_path / "t-0" / name).unlink()
    with caplog.at_level(logging.WARNING, RECOVERY):
        log = open_log(tmp_path / "t-0", SMALL, clean=clean, recovery_point=80)
    if suffix != ".txnindex":
        assert "Rebuilding the indexes" in caplog.text
    log.close(clean=True)
    for name, content in before.items():
        if name.endswith(suffix):
            assert (tmp_path / "t-0" / name).read_bytes() == content
    assert_usable(open_log(tmp_path / "t-0", SMALL), expected)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("seed", range(6))
def test_indexes_full_of_noise_mislead_nobody(tmp_path: Path, suffix: str, seed: int) -> None:
    expected = closed(tmp_path / "t-0")
    noise = random.Random(seed)
    for name in file_names(tmp_path / "t-0"):
        if name.endswith(suffix):
            path = tmp_path / "t-0" / name
            size = path.stat().st_size
            path.write_bytes(noise.randbytes(size if seed % 2 else size + seed))
    log = open_log(tmp_path / "t-0", SMALL)
    assert log.end_offset == 80
    for number in range(40):
        found = offset_for_timestamp(log, NOW_MS + number)
        assert found is not None
        # The second record of a batch is 1 ms younger than the first.
        assert found[1] == max(number * 2 - 1, 0)
    assert_usable(log, expected)


def test_noise_in_the_middle_of_an_index_is_noticed_on_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = closed(tmp_path / "t-0")
    path = tmp_path / "t-0" / "00000000000000000000.index"
    data = bytearray(path.read_bytes())
    assert len(data) >= 24
    for slot in range(len(data) // 8 - 1):
        struct.pack_into(">i", data, slot * 8 + 4, 7 + slot)
    path.write_bytes(data)
    log = open_log(tmp_path / "t-0", SMALL)
    with caplog.at_level(logging.WARNING, RECOVERY):
        assert_usable(log, expected)
    assert "Rebuilding the indexes" in caplog.text


def test_an_index_left_at_full_size_by_a_crash_is_rebuilt(tmp_path: Path) -> None:
    expected = written(tmp_path / "t-0")
    assert any(
        (tmp_path / "t-0" / name).stat().st_size == 4096
        for name in file_names(tmp_path / "t-0")
        if name.endswith(".index")
    )
    log = open_log(tmp_path / "t-0", SMALL, clean=True)
    assert_usable(log, expected)


def test_a_lost_end_of_a_cleanly_closed_log_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed(tmp_path / "t-0", 9)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    os.truncate(path, path.stat().st_size - 5)
    with caplog.at_level(logging.WARNING, RECOVERY):
        log = open_log(tmp_path / "t-0", SMALL, clean=True)
    assert log.end_offset == 16
    assert "is damaged although the broker was stopped cleanly" in caplog.text


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("index_interval_bytes", [150, 4096])
@pytest.mark.parametrize("keep", ["nothing", "whole batches", "half a batch"])
def test_an_emptied_or_cut_first_segment_is_told_with_what_is_lost(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    keep: str,
    index_interval_bytes: int,
    clean: bool,
) -> None:
    config = replace(SMALL, index_interval_bytes=index_interval_bytes)
    log = open_log(tmp_path / "t-0", config)
    for number in range(40):
        append(log, b"%05d" % number + b"." * 100)
    log.close(clean=True)
    first, second = (segment.base_offset for segment in log.segments[:2])
    path = tmp_path / "t-0" / f"{first:020d}.log"
    data = path.read_bytes()
    whole = [len(batch) for _, batch in batches(data)]
    kept_bytes = {
        "nothing": 0,
        "whole batches": sum(whole[:3]),
        "half a batch": sum(whole[:3]) + 50,
    }
    path.write_bytes(data[: kept_bytes[keep]])
    log = open_log(tmp_path / "t-0", config, clean=clean, recovery_point=log.end_offset)
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    if keep == "whole batches" and index_interval_bytes == 4096:
        assert told == []  # might be what an earlier compaction left
    else:
        lost_from = 0 if keep == "nothing" else 3
        assert any(f"lacks offsets {lost_from} to {second - 1}: " in each for each in told), told
    if keep != "half a batch":
        assert values_of(log, offset=3)[0][0] == second  # as Kafka: readers go on behind it


def test_compaction_that_emptied_a_segment_is_no_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}), index_interval_bytes=4096)
    log = open_log(tmp_path / "t-0", config)
    for number in range(40):
        append(log, b"%05d" % number + b"." * 100)
    log.close(clean=True)
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"")
    open_log(tmp_path / "t-0", config, clean=True)
    assert not [each for each in caplog.records if each.levelno == logging.ERROR]


def test_files_of_an_interrupted_deletion_or_compaction_are_removed(tmp_path: Path) -> None:
    expected = closed(tmp_path / "t-0", 9)
    folder = tmp_path / "t-0"
    data = (folder / "00000000000000000000.log").read_bytes()
    for name in (
        "log.deleted",
        "index.deleted",
        "snapshot.deleted",
        "log.cleaned",
        "index.cleaned",
    ):
        (folder / f"00000000000000000004.{name}").write_bytes(data[:100])
    (folder / "00000000000000000004.log.swap").write_bytes(data[:100])
    (folder / "00000000000000000007-0000000001.checkpoint.deleted").write_bytes(b"metadata's own")
    log = open_log(folder, SMALL)
    left = [name for name in file_names(folder) if name.endswith(("deleted", "cleaned", "swap"))]
    assert left == ["00000000000000000007-0000000001.checkpoint.deleted"]
    assert_usable(log, expected)


def test_an_interrupted_swap_is_finished(tmp_path: Path) -> None:
    """A compacted segment stands for three, two of which are still there."""
    log = open_log(tmp_path / "t-0", SMALL)
    for _ in range(4):
        append(log, b"x" * 50, b"y" * 50)
        log.roll()
    log.close(clean=True)
    folder = tmp_path / "t-0"
    survivor = make_batch([b"kept"], base_offset=0) + make_batch([b"kept too"], base_offset=5)
    (folder / "00000000000000000000.log.swap").write_bytes(survivor)
    (folder / "00000000000000000000.index.swap").write_bytes(b"")
    (folder / "00000000000000000000.timeindex.swap").write_bytes(b"")
    (folder / "00000000000000000002.log").unlink()
    again = open_log(folder, SMALL, clean=False)
    assert [segment.base_offset for segment in again.segments] == [0, 6, 8]
    assert [value for _, value in values_of(again)] == [b"kept", b"kept too", b"x" * 50, b"y" * 50]


def test_an_index_without_its_log_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed(tmp_path / "t-0", 3)
    orphan = tmp_path / "t-0" / "00000000000000000900.index"
    orphan.write_bytes(bytes(8))
    with caplog.at_level(logging.WARNING, RECOVERY):
        open_log(tmp_path / "t-0", SMALL)
    assert not orphan.exists()
    assert str(orphan) in caplog.text


@pytest.mark.parametrize("damage", ["missing", "noise"])
@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_are_found_again_in_the_batches(
    tmp_path: Path, damage: str, clean: bool
) -> None:
    closed(tmp_path / "t-0")
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\x80noise")
    log = open_log(tmp_path / "t-0", SMALL, clean=clean, recovery_point=80)
    assert log.epochs.entries == [(epoch, epoch * 20) for epoch in range(4)]


def test_epochs_past_the_recovered_end_are_forgotten(tmp_path: Path) -> None:
    written(tmp_path / "t-0", 9)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n5 400\n")
    log = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert log.epochs.entries == [(0, 0)]


def test_a_log_that_ends_before_its_start_offset_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / "t-0", 9)
    with caplog.at_level(logging.WARNING, RECOVERY):
        log = open_log(tmp_path / "t-0", SMALL, clean=False, log_start_offset=500)
    assert (log.log_start_offset, log.end_offset) == (500, 500)
    assert "dropping all of it" in caplog.text
    assert append(log, b"x").base_offset == 500
    log.close(clean=True)
    assert values_of(open_log(tmp_path / "t-0", SMALL)) == [(500, b"x")]


def test_the_start_offset_survives(tmp_path: Path) -> None:
    expected = written(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", SMALL, clean=False, log_start_offset=13)
    assert log.log_start_offset == 13
    assert values_of(log) == expected[13:]
    assert log.epochs.entries[0] == (0, 13)


def test_a_damaged_topic_id_is_replaced(tmp_path: Path) -> None:
    closed(tmp_path / "t-0", 3)
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"")
    assert open_log(tmp_path / "t-0", SMALL).topic_id is None
    assert open_log(tmp_path / "t-0", SMALL, topic_id=TOPIC_ID).topic_id == TOPIC_ID
    assert open_log(tmp_path / "t-0", SMALL).topic_id == TOPIC_ID


def legacy_message(offset: int) -> bytes:
    """A message as brokers wrote it before batches: offset, size, CRC-32, magic 1, ..."""
    body = (
        struct.pack(">bbq", 1, 0, NOW_MS)
        + struct.pack(">i", -1)
        + struct.pack(">i", 80)
        + b"v" * 80
    )
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


def test_sound_messages_of_the_old_format_are_never_cut(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = legacy_message(0) + legacy_message(1)
    (folder / "00000000000000000000.log").write_bytes(data)
    with pytest.raises(UnsupportedFormat, match="old format"):
        open_log(folder, SMALL, clean=False)
    assert (folder / "00000000000000000000.log").read_bytes() == data


def test_recovery_twice_gives_the_same(tmp_path: Path) -> None:
    expected = written(tmp_path / "t-0")
    open_log(tmp_path / "t-0", SMALL, clean=False)
    assert_usable(open_log(tmp_path / "t-0", SMALL, clean=False), expected)


def test_a_batch_corrects_an_epoch_left_from_before_a_truncation(tmp_path: Path) -> None:
    """A former leader of epoch 5 took over what epoch 4 had written, and died before a flush."""
    log = open_log(tmp_path / "t-0", SMALL)
    append(log, b"a", epoch=3)
    append(log, b"lost", epoch=5)
    log.flush()
    log.truncate_to(1)
    log.append_at(make_batch([b"b"], base_offset=1, partition_leader_epoch=4), NOW_MS)
    log.append_at(make_batch([b"c"], base_offset=2, partition_leader_epoch=6), NOW_MS)
    assert log.epochs.entries == [(3, 0), (4, 1), (6, 2)]
    again = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert again.epochs.entries == [(3, 0), (4, 1), (6, 2)]


def test_nothing_is_kept_after_a_hole_that_power_loss_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = written(tmp_path / "t-0")
    names = [name for name in file_names(tmp_path / "t-0") if name.endswith(".log")]
    path = tmp_path / "t-0" / names[0]
    sizes = [header.size for header, _ in batches(path.read_bytes())]
    os.truncate(path, sum(sizes[:-2]))
    with caplog.at_level(logging.WARNING, RECOVERY):
        log = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert log.end_offset == (len(sizes) - 2) * 2
    assert "are lost" in caplog.text
    assert_usable(log, expected[: log.end_offset])


def test_a_batch_of_an_earlier_leader_cannot_follow_a_later_one(tmp_path: Path) -> None:
    """It is left from before a truncation, brought back by power loss."""
    log = open_log(tmp_path / "t-0", SMALL)
    append(log, b"a", epoch=3)
    append(log, b"b", epoch=5)
    log.close(clean=True)
    with (tmp_path / "t-0" / "00000000000000000000.log").open("ab") as file:
        file.write(make_batch([b"old"], base_offset=2, partition_leader_epoch=4))
    again = open_log(tmp_path / "t-0", SMALL, clean=False)
    assert values_of(again) == [(0, b"a"), (1, b"b")]
