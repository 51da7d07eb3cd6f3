"""The operating system's disk, on real files."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.runtime import os_disk
from ottla.runtime.disk import FileSlice
from ottla.runtime.os_disk import IOV_MAX, OsDisk


def test_open_without_create_refuses_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OsDisk().open(str(tmp_path / "absent"))


def test_writes_go_to_their_offsets_and_reads_stop_at_the_end(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a.log"), create=True)
    assert file.write_at(0, [b"hello ", bytearray(b"wor"), memoryview(b"ld")]) == 11
    assert file.write_at(6, [b"W"]) == 1
    assert file.read_at(0, 100) == b"hello World"
    assert file.read_at(6, 3) == b"Wor"
    assert file.read_at(11, 10) == b""
    assert file.size() == 11
    file.close()


def test_more_buffers_than_the_kernel_takes_at_once_are_all_written(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a.log"), create=True)
    parts = [b"%06d" % number for number in range(IOV_MAX * 2 + 7)]
    assert file.write_at(3, parts) == 6 * len(parts)
    assert file.read_at(3, 6 * len(parts)) == b"".join(parts)


def test_short_writes_are_continued_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev

    def seven_bytes_at_most(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        return real(fd, [b"".join(buffers)[:7]], offset)

    monkeypatch.setattr(os_disk.os, "pwritev", seven_bytes_at_most)
    file = OsDisk().open(str(tmp_path / "a.log"), create=True)
    parts = [b"abcde", b"", b"fghijklmnop", memoryview(b"qrstuvwxyz")]
    assert file.write_at(2, parts) == 26
    assert file.read_at(2, 99) == b"abcdefghijklmnopqrstuvwxyz"


def test_a_short_single_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os_disk.os, "pwrite", lambda fd, data, offset: real(fd, data[:4], offset))
    file = OsDisk().open(str(tmp_path / "a.log"), create=True)
    assert file.write_at(0, [b"0123456789"]) == 10
    assert file.read_at(0, 99) == b"0123456789"


def test_truncate_cuts_and_extends_with_zeros(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a.log"), create=True)
    file.write_at(0, [b"abcdef"])
    file.truncate(2)
    file.truncate(4)
    file.sync()
    assert file.read_at(0, 9) == b"ab\0\0"


def test_a_mapping_and_the_file_show_the_same_bytes(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a.index"), create=True)
    file.truncate(4096)
    mapping = file.map(4096)
    mapping.view[10:13] = b"xyz"
    assert file.read_at(10, 3) == b"xyz"
    file.write_at(20, [b"q"])
    assert mapping.view[20] == ord("q")
    mapping.flush()
    kept = mapping.view[10:13]
    mapping.close()  # a slice still held must not make closing fail
    assert bytes(kept) == b"xyz"


def test_a_mapping_outlives_its_closed_file(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a.index"), create=True)
    file.truncate(16)
    mapping = file.map(16)
    file.close()
    mapping.view[0] = 7
    mapping.flush()
    mapping.close()
    assert (tmp_path / "a.index").read_bytes()[0] == 7


def test_a_closed_file_cannot_write_into_another_files_descriptor(tmp_path: Path) -> None:
    disk = OsDisk()
    first = disk.open(str(tmp_path / "first"), create=True)
    first.close()
    first.close()
    disk.open(str(tmp_path / "second"), create=True)
    with pytest.raises(OSError, match="descriptor"):
        first.write_at(0, [b"stray"])


def test_replace_bytes_leaves_the_new_content_and_no_temporary(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / "checkpoint")
    disk.replace_bytes(path, b"a longer first content")
    disk.replace_bytes(path, b"new")
    assert disk.read_bytes(path) == b"new"
    assert disk.list_dir(str(tmp_path)) == ["checkpoint"]


def test_a_failed_replace_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk()
    path = str(tmp_path / "checkpoint")
    disk.replace_bytes(path, b"old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os_disk.os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        disk.replace_bytes(path, b"new")
    assert disk.read_bytes(path) == b"old"


def test_folders_are_made_listed_sorted_renamed_and_removed(tmp_path: Path) -> None:
    disk = OsDisk()
    base = str(tmp_path / "x" / "y")
    disk.make_dirs(base)
    disk.make_dirs(base)
    for name in ("b", "a", "c"):
        disk.open(os.path.join(base, name), create=True).close()
    assert disk.list_dir(base) == ["a", "b", "c"]
    disk.rename(os.path.join(base, "a"), os.path.join(base, "c"))
    disk.sync_dir(base)
    assert disk.list_dir(base) == ["b", "c"]
    disk.remove(os.path.join(base, "b"))
    assert disk.is_dir(base)
    assert not disk.is_dir(os.path.join(base, "c"))
    disk.remove_tree(str(tmp_path / "x"))
    assert not disk.exists(base)


def test_modification_time_can_be_set_and_read_in_milliseconds(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / "a")
    disk.replace_bytes(path, b"12345")
    disk.set_modified_ms(path, 1_700_000_000_123)
    assert disk.modified_ms(path) == 1_700_000_000_123
    assert disk.size(path) == 5


def test_space_tells_total_and_usable(tmp_path: Path) -> None:
    total, usable = OsDisk().space(str(tmp_path))
    assert 0 < usable <= total


def test_a_lock_is_refused_twice_in_one_process_and_free_after_release(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / ".lock")
    held = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    held.release()
    disk.lock(path).release()


@pytest.mark.parametrize("call", ["flock", "lockf"])
def test_a_lock_held_by_another_process_is_refused(tmp_path: Path, call: str) -> None:
    """`lockf` stands for a JVM broker, which takes record locks."""
    if call == "lockf" and sys.platform != "linux":
        pytest.skip("record locks are taken beside flock on Linux only")
    path = str(tmp_path / ".lock")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys\n"
            f"file = open({path!r}, 'a')\n"
            f"fcntl.{call}(file, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(BlockingIOError, match="another process"):
        OsDisk().lock(path)
    holder.communicate()
    OsDisk().lock(path).release()


def test_a_file_slice_reads_its_range_only(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "a.log"), create=True)
    file.write_at(0, [b"0123456789"])
    part = FileSlice(file, 3, 4)
    assert len(part) == 4
    assert part.read() == b"3456"
