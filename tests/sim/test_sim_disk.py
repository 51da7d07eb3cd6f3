"""The simulated disk: what programs see, and what is left after each kind of crash."""

import errno
import random
from collections.abc import Callable

import pytest

from ottla.runtime.disk import Disk, File
from ottla.sim import SimRuntime, SimulatedCrash, World
from ottla.sim.inode import SECTOR_BYTES

SEEDS = range(60)


def booted(seed: int = 0) -> tuple[World, SimRuntime]:
    world = World(seed)
    runtime = world.boot("a")
    runtime.disk.make_dirs("/data")
    world.machine("a").volume.settle()
    return world, runtime


def after(world: World, *, power_loss: bool) -> Disk:
    world.crash("a", power_loss=power_loss)
    return world.boot("a").disk


def after_power_loss(
    prepare: Callable[[Disk], object], look: Callable[[Disk], object]
) -> list[object]:
    """What `look` sees after power loss, over many seeds; each result once."""
    seen: list[object] = []
    for seed in SEEDS:
        world, runtime = booted(seed)
        prepare(runtime.disk)
        result = look(after(world, power_loss=True))
        if result not in seen:
            seen.append(result)
    return seen


def created(disk: Disk, path: str, content: bytes = b"") -> File:
    file = disk.open(path, create=True)
    if content:
        file.write_at(0, [content])
    return file


def content_or_none(path: str) -> Callable[[Disk], bytes | None]:
    return lambda disk: disk.read_bytes(path) if disk.exists(path) else None


def settled(disk: Disk, path: str, content: bytes) -> File:
    file = created(disk, path, content)
    file.sync()
    disk.sync_dir("/data")
    return file


def test_it_behaves_like_a_file_system() -> None:
    _, runtime = booted()
    disk = runtime.disk
    with pytest.raises(FileNotFoundError):
        disk.open("/data/absent")
    file = created(disk, "/data/b", b"hello world")
    file.write_at(13, [b"!", bytearray(b"?")])
    assert file.read_at(0, 99) == b"hello world\0\0!?"
    file.truncate(5)
    assert (file.read_at(3, 9), file.size(), disk.size("/data/b")) == (b"lo", 5, 5)
    disk.make_dirs("/data/x/y")
    disk.rename("/data/b", "/data/x/y/c")
    disk.rename("/data/x", "/data/z")
    assert disk.list_dir("/data") == ["z"]
    assert disk.read_bytes("/data/z/y/c") == b"hello"
    file.write_at(0, [b"J"])
    assert disk.read_bytes("/data/z/y/c") == b"Jello"
    disk.remove_tree("/data/z")
    assert disk.list_dir("/data") == []
    assert file.read_at(0, 5) == b"Jello"


def test_a_process_kill_keeps_everything_written() -> None:
    world, runtime = booted()
    file = created(runtime.disk, "/data/a", b"written")
    file.truncate(5000)
    mapping = file.map(5000)
    mapping.view[4999] = 9
    disk = after(world, power_loss=False)
    assert disk.read_bytes("/data/a") == b"written" + bytes(4992) + b"\x09"


def test_power_loss_keeps_what_was_synced_in_file_and_folder() -> None:
    seen = after_power_loss(
        lambda disk: settled(disk, "/data/a", b"synced"), content_or_none("/data/a")
    )
    assert seen == [b"synced"]


def test_a_name_may_be_lost_though_its_bytes_were_synced() -> None:
    seen = after_power_loss(
        lambda disk: created(disk, "/data/a", b"synced").sync(), content_or_none("/data/a")
    )
    assert sorted(seen, key=repr) == [None, b"synced"] or sorted(seen, key=repr) == [
        b"synced",
        None,
    ]


def test_an_unsynced_write_survives_is_lost_or_is_torn() -> None:
    def prepare(disk: Disk) -> None:
        settled(disk, "/data/a", b"first ").write_at(6, [b"second"])

    seen = after_power_loss(prepare, content_or_none("/data/a"))
    assert b"first second" in seen
    assert b"first " in seen
    torn = [content for content in seen if content not in (b"first second", b"first ")]
    assert torn
    assert all(b"first second".startswith(content) for content in torn)  # type: ignore[arg-type]


def test_a_later_write_may_survive_an_earlier_one_leaving_zeros() -> None:
    def prepare(disk: Disk) -> None:
        file = settled(disk, "/data/a", b"")
        file.write_at(0, [b"A" * 100])
        file.write_at(100, [b"B" * 100])

    seen = after_power_loss(prepare, content_or_none("/data/a"))
    assert bytes(100) + b"B" * 100 in seen


def test_a_large_write_may_be_torn_into_sectors() -> None:
    def prepare(disk: Disk) -> None:
        settled(disk, "/data/a", bytes(8192)).write_at(0, [b"x" * 8192])

    def sectors(disk: Disk) -> tuple[bool, ...] | None:
        content = disk.read_bytes("/data/a")
        parts = [content[at : at + SECTOR_BYTES] for at in range(0, 8192, SECTOR_BYTES)]
        if any(len(set(part)) > 1 for part in parts):
            return None  # cut inside a sector
        return tuple(part[0] == ord("x") for part in parts)

    seen = after_power_loss(prepare, sectors)
    assert any(isinstance(kept, tuple) and sorted(kept) != list(kept)[::-1] for kept in seen)


def test_an_unsynced_truncate_may_be_lost_and_takes_later_writes_with_it() -> None:
    def prepare(disk: Disk) -> None:
        file = settled(disk, "/data/a", b"0123456789")
        file.truncate(4)
        file.write_at(4, [b"new"])

    seen = after_power_loss(prepare, content_or_none("/data/a"))
    assert b"0123456789" in seen
    assert b"0123new" in seen
    assert b"0123new789" not in seen


def test_mapped_stores_may_be_lost_without_flush_and_not_after_it() -> None:
    def prepare(disk: Disk, flush: bool) -> None:
        file = settled(disk, "/data/a", bytes(8192))
        mapping = file.map(8192)
        mapping.view[0] = mapping.view[5000] = 1
        if flush:
            mapping.flush()
        mapping.view[1] = 2

    def look(disk: Disk) -> tuple[int, int]:
        content = disk.read_bytes("/data/a")
        return content[0], content[5000]

    unflushed = after_power_loss(lambda disk: prepare(disk, False), look)
    assert {(0, 0), (1, 1), (0, 1), (1, 0)} == set(unflushed)
    assert after_power_loss(lambda disk: prepare(disk, True), look) == [(1, 1)]


def test_a_mapping_and_the_file_show_the_same_bytes() -> None:
    _, runtime = booted()
    file = created(runtime.disk, "/data/a", bytes(100))
    mapping = file.map(64)
    mapping.view[60:64] = b"wxyz"
    file.write_at(62, [b"YZ+"])
    assert bytes(mapping.view[60:64]) == b"wxYZ"
    assert file.read_at(60, 6) == b"wxYZ+\0"
    file.write_at(100, [b"grown"])
    assert file.size() == 105
    mapping.close()
    assert file.read_at(60, 5) == b"wxYZ+"
    assert file.read_at(100, 9) == b"grown"
    with pytest.raises(ValueError, match="greater than"):
        file.map(106)


def test_unsynced_creations_survive_in_order() -> None:
    def prepare(disk: Disk) -> None:
        for name in ("1", "2", "3"):
            created(disk, f"/data/{name}")

    seen = after_power_loss(prepare, lambda disk: disk.list_dir("/data"))
    assert sorted(map(repr, seen)) == ["['1', '2', '3']", "['1', '2']", "['1']", "[]"]


def test_an_unsynced_rename_happened_or_not_but_never_half() -> None:
    def prepare(disk: Disk) -> None:
        settled(disk, "/data/old", b"o")
        settled(disk, "/data/target", b"t")
        disk.rename("/data/old", "/data/target")

    def look(disk: Disk) -> list[tuple[str, bytes]]:
        return [(name, disk.read_bytes(f"/data/{name}")) for name in disk.list_dir("/data")]

    seen = after_power_loss(prepare, look)
    assert len(seen) == 2
    assert [("old", b"o"), ("target", b"t")] in seen
    assert [("target", b"o")] in seen


def test_a_rename_of_unsynced_bytes_may_leave_an_empty_file() -> None:
    def prepare(disk: Disk) -> None:
        created(disk, "/data/new", b"content")
        disk.rename("/data/new", "/data/a")
        disk.sync_dir("/data")

    assert b"" in after_power_loss(prepare, content_or_none("/data/a"))


def test_an_unsynced_removal_may_come_back() -> None:
    def prepare(disk: Disk) -> None:
        settled(disk, "/data/a", b"x")
        disk.remove("/data/a")

    assert set(after_power_loss(prepare, content_or_none("/data/a"))) == {None, b"x"}


def test_replace_bytes_leaves_the_old_or_the_new_content_at_any_crash() -> None:
    for seed in range(200):
        world, runtime = booted(seed)
        runtime.disk.replace_bytes("/data/a", b"old content")
        world.crash_within("a", random.Random(seed).randint(0, 6), power_loss=True)
        try:
            runtime.disk.replace_bytes("/data/a", b"new")
            replaced = True
            world.crash("a", power_loss=True)
        except SimulatedCrash:
            replaced = False
        content = world.boot("a").disk.read_bytes("/data/a")
        assert content in ([b"new"] if replaced else [b"old content", b"new"])


def test_the_dead_can_touch_nothing_and_their_lock_is_free() -> None:
    world, runtime = booted()
    file = created(runtime.disk, "/data/a", b"x")
    lock = runtime.disk.lock("/data/.lock")
    with pytest.raises(BlockingIOError):
        runtime.disk.lock("/data/.lock")
    disk = after(world, power_loss=False)
    disk.lock("/data/.lock")
    for act in (lambda: file.write_at(0, [b"y"]), file.sync, lambda: runtime.disk.list_dir("/")):
        with pytest.raises(SimulatedCrash):
            act()
    lock.release()
    assert disk.read_bytes("/data/a") == b"x"


def test_a_crash_inside_a_write_may_leave_a_part_of_it() -> None:
    lengths = set()
    for seed in range(40):
        world, runtime = booted(seed)
        file = created(runtime.disk, "/data/a")
        world.crash_within("a", 0)
        with pytest.raises(SimulatedCrash):
            file.write_at(0, [b"z" * 10_000])
        lengths.add(world.boot("a").disk.size("/data/a"))
    assert {0, 4096, 8192, 10_000} == lengths


def test_a_full_volume_takes_what_fits_and_refuses_the_rest() -> None:
    world, runtime = booted()
    world.machine("a").volume.capacity_bytes = 8192
    file = created(runtime.disk, "/data/a")
    file.write_at(0, [b"x" * 6000])
    with pytest.raises(OSError, match="space") as caught:
        file.write_at(6000, [b"y" * 6000])
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 8192
    assert runtime.disk.space("/data") == (8192, 0)
    file.truncate(0)
    file.write_at(0, [b"z" * 8192])


def test_faults_strike_below_their_path_only() -> None:
    world, runtime = booted()
    good, bad = created(runtime.disk, "/data/good"), created(runtime.disk, "/data/bad", b"abc")
    world.machine("a").faults.fail("/data/bad")
    for act in (lambda: bad.read_at(0, 1), lambda: bad.write_at(0, [b"x"]), bad.sync):
        with pytest.raises(OSError, match="Input/output"):
            act()
    good.write_at(0, [b"fine"])
    good.sync()
    world.machine("a").faults.heal()
    bad.read_at(0, 1)


def test_faults_by_chance_strike_sometimes() -> None:
    world, runtime = booted()
    file = created(runtime.disk, "/data/a", b"abc")
    world.machine("a").faults.read_error_rate = 0.5
    outcomes = set()
    for _ in range(40):
        try:
            outcomes.add(file.read_at(0, 3))
        except OSError as error:
            outcomes.add(error.errno)
    assert outcomes == {b"abc", errno.EIO}


def test_after_a_failed_sync_a_good_one_does_not_bring_dropped_bytes_back() -> None:
    contents = set()
    for seed in SEEDS:
        world, runtime = booted(seed)
        file = settled(runtime.disk, "/data/a", b"")
        file.write_at(0, [b"abc"])
        world.machine("a").faults.fail("/data/a", "sync")
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        assert file.read_at(0, 3) == b"abc"
        world.machine("a").faults.heal()
        file.sync()
        contents.add(after(world, power_loss=True).read_bytes("/data/a"))
    assert contents == {b"", b"abc"}
