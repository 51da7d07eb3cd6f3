"""The list of a log's segments, and the files that wait for their removal."""

from __future__ import annotations

from pathlib import Path

from storage_tools import NOW_MS, FixedClock

from ottla.broker.storage.deleted_files import DeletedFiles
from ottla.broker.storage.segments.segment import Segment
from ottla.broker.storage.segments.segments import Segments
from ottla.config.topic import TopicConfig
from ottla.runtime.os_disk import OsDisk

CONFIG = TopicConfig()


def make_segments(folder: Path, *base_offsets: int) -> Segments:
    disk, first = OsDisk(), base_offsets[0]
    segments = Segments(
        disk, str(folder), [Segment.create(disk, str(folder), first, CONFIG, NOW_MS)]
    )
    for base_offset in base_offsets[1:]:
        segments.create(base_offset, CONFIG, NOW_MS)
    return segments


def bases(segments: Segments | list[Segment]) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_an_offset_is_in_the_last_segment_that_does_not_begin_after_it(tmp_path: Path) -> None:
    segments = make_segments(tmp_path, 5, 10, 20)
    positions = [segments.position_of(offset) for offset in (0, 5, 9, 10, 19, 20, 99)]
    assert positions == [0, 0, 0, 1, 1, 2, 2]
    assert bases(segments.since(12)) == [10, 20]


def test_whoever_iterates_keeps_the_segments_there_were_at_the_beginning(tmp_path: Path) -> None:
    segments = make_segments(tmp_path, 0, 10, 20)
    begun = iter(segments)
    segments.drop_first(1)
    segments.drop_after(10)
    segments.create(30, CONFIG, NOW_MS)
    assert bases(list(begun)) == [0, 10, 20]
    assert bases(segments) == [10, 30]


def test_the_last_segment_left_is_the_active_one(tmp_path: Path) -> None:
    segments = make_segments(tmp_path, 0, 10, 20)
    segments.recent.add(20, 0, 61)
    assert bases(segments.drop_after(15)) == [20]
    assert segments.active is segments[-1]
    assert segments.active.base_offset == 10
    assert segments.recent.get(20) is None, "a position in a segment that is not active any more"


def test_a_compacted_segment_takes_the_place_of_its_sources(tmp_path: Path) -> None:
    segments = make_segments(tmp_path, 0, 10, 20, 30)
    cleaned = Segment.create(segments.disk, str(tmp_path), 10, CONFIG, NOW_MS, ending=".cleaned")
    segments.replace(segments[1:3], cleaned)
    assert bases(segments) == [0, 10, 30]
    assert segments[1] is cleaned


def test_deleted_files_are_removed_after_the_delay_also_in_a_renamed_folder(tmp_path: Path) -> None:
    clock = FixedClock()
    folder, renamed = tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    (folder / "1.log.deleted").touch()
    deleted = DeletedFiles(OsDisk(), clock)
    deleted.add([str(folder / "1.log.deleted"), str(folder / "gone")], 500)
    folder.rename(renamed)
    deleted.move(str(renamed))
    assert deleted.remove_due(NOW_MS + 499) == 0
    assert deleted
    assert deleted.remove_due(NOW_MS + 500) == 2
    assert not deleted
    assert not list(renamed.iterdir())
