"""The cleaner at work beside a log manager, with real files, threads and child processes."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cleaner_tools import all_records, compacted, pairs_of, put
from storage_tools import NOW_MS, TOPIC_ID, FaultyDisk, file_names

from ottla.broker.storage.log import Log
from ottla.broker.storage.log_manager import LogManager
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.runtime.os_runtime import OsRuntime
from ottla.runtime.worker import ChildWorker, Worker, WorkerDied

CONFIG = compacted(segment_bytes=20_000, file_delete_delay_ms=0)


class WithoutProcesses(OsRuntime):
    async def start_worker(self, module: str) -> Worker | None:
        return None


class FailingProcesses(OsRuntime):
    async def start_worker(self, module: str) -> Worker | None:
        raise WorkerDied("no processes today")


RUNTIMES = pytest.mark.parametrize("kind", [OsRuntime, WithoutProcesses, FailingProcesses])


def in_runtime(
    test: Callable[[OsRuntime], Awaitable[None]], kind: type[OsRuntime] = OsRuntime
) -> None:
    async def main() -> None:
        runtime = kind()
        try:
            await test(runtime)
        finally:
            await runtime.close()

    asyncio.run(main())


def broker_config(folder: Path, **settings: Any) -> BrokerConfig:
    given = {"log.dirs": str(folder), "log.cleaner.backoff.ms": "20"}
    given["log.cleaner.dedupe.buffer.size"] = str(4 << 20)
    return BrokerConfig.parse(
        given | {name.replace("_", "."): str(value) for name, value in settings.items()}
    )


async def started(
    runtime: OsRuntime, folder: Path, topic: TopicConfig = CONFIG, **settings: Any
) -> LogManager:
    manager = LogManager(runtime, broker_config(folder, **settings))
    await manager.open()
    await manager.load(lambda _: topic)
    return manager


def begin_work(manager: LogManager) -> None:
    manager.start_background_work(
        lambda: {(log.topic, log.partition): log.end_offset for log in manager.logs()}
    )


def fill(log: Log, count: int = 300, keys: int = 20, size: int = 100) -> None:
    for number in range(count):
        put(log, [(b"k%d" % (number % keys), b"%d" % number + bytes(size))])
    log.roll()


def damage(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


async def eventually(condition: Callable[[], bool], seconds: float = 30) -> None:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen in time")


@RUNTIMES
def test_a_dirty_log_becomes_clean_and_stays_known_as_clean(
    tmp_path: Path, kind: type[OsRuntime]
) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path)
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        put(log, [(b"k0", b"active")])
        begin_work(manager)
        cleaner = manager.cleaner
        await eventually(lambda: cleaner.metrics.runs > 0 and not cleaner.is_cleaning(log))
        assert [offset for offset, _, _ in pairs_of(all_records(log))] == list(range(280, 301))
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 300\n"
        metrics = cleaner.metrics
        assert metrics.records_read == 300
        assert metrics.records_written == 20
        assert 0 < metrics.last_recopied_ratio < 0.2
        assert metrics.last_run_ms > 0
        await asyncio.sleep(0.1)
        assert metrics.runs == 1, "a clean log is left alone"
        await manager.close()
        leftovers = (".cleaned", ".swap")
        assert not [name for name in file_names(tmp_path / "t-0") if name.endswith(leftovers)]

        again = await started(runtime, tmp_path)
        found = again.get("t", 0)
        assert found is not None
        assert len(all_records(found)) == 21
        begin_work(again)
        await asyncio.sleep(0.1)
        assert again.cleaner.metrics.runs == 0
        assert again.cleaner.metrics.last_choice_ms > 0
        await again.close()

    in_runtime(test, kind)


def test_the_child_process_ends_when_there_is_nothing_left_to_do(tmp_path: Path) -> None:
    workers: list[ChildWorker] = []

    class Watched(OsRuntime):
        async def start_worker(self, module: str) -> Worker | None:
            worker = ChildWorker(module)
            workers.append(worker)
            return worker

    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path)
        logs = [manager.create("t", number, TOPIC_ID, CONFIG) for number in range(3)]
        for log in logs:
            fill(log)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 3)
        assert len(workers) == 1, "one after the other, in the same process"
        await eventually(lambda: workers[0]._process.poll() is not None)
        fill(logs[0])
        await eventually(lambda: manager.cleaner.metrics.runs == 4)
        assert len(workers) == 2
        await manager.close()

    in_runtime(test, Watched)


def test_several_lanes_share_the_work(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        settings = {"log_cleaner_threads": 2}
        manager = await started(runtime, tmp_path, **settings)
        logs = [manager.create("t", number, TOPIC_ID, CONFIG) for number in range(4)]
        for log in logs:
            fill(log)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 4)
        assert all(len(all_records(log)) == 20 for log in logs)
        manager.configure(broker_config(tmp_path, log_cleaner_threads=1))
        fill(logs[0])
        await eventually(lambda: manager.cleaner.metrics.runs == 5)
        await manager.close()

    in_runtime(test)


def test_a_switched_off_cleaner_does_nothing(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path, log_cleaner_enable="false")
        fill(manager.create("t", 0, TOPIC_ID, CONFIG))
        begin_work(manager)
        await asyncio.sleep(0.1)
        assert manager.cleaner.metrics.last_choice_ms == -1
        await manager.close()

    in_runtime(test)


def slow_settings() -> dict[str, Any]:
    """So slow that a run takes many seconds: it can be caught in the middle."""
    return {"log_cleaner_io_max_bytes_per_second": 20_000, "log_cleaner_io_buffer_size": 8192}


@RUNTIMES
def test_a_topic_can_be_deleted_while_it_is_compacted(
    tmp_path: Path, kind: type[OsRuntime]
) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path, **slow_settings())
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.is_cleaning(log))
        manager.delete("t", 0)
        await eventually(lambda: not manager.cleaner.is_cleaning(log))
        assert manager.cleaner.metrics.runs == 0
        assert manager.cleaner.metrics.broken_off == 1
        assert all(log_dir.online for log_dir in manager.dirs)
        other = manager.create("t", 0, TOPIC_ID, CONFIG)
        assert all_records(other) == []
        await manager.close()

    in_runtime(test, kind)


@RUNTIMES
def test_a_truncation_breaks_a_run_off_and_leaves_nothing_behind(
    tmp_path: Path, kind: type[OsRuntime]
) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path, **slow_settings())
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.is_cleaning(log))
        await asyncio.sleep(0.1)
        log.truncate_to(250)
        await eventually(lambda: manager.cleaner.metrics.broken_off == 1)
        await eventually(lambda: not manager.cleaner.is_cleaning(log))
        assert [offset for offset, _, _ in pairs_of(all_records(log))] == list(range(250))
        names = file_names(log.directory)
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        await manager.close()

    in_runtime(test, kind)


def test_what_was_clean_beyond_a_truncation_is_dirty_again(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path)
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        log.truncate_to(290)
        path = tmp_path / "cleaner-offset-checkpoint"
        await eventually(lambda: path.read_text() == "0\n1\nt 0 290\n")
        await manager.close()

    in_runtime(test)


def test_a_deleted_topic_is_forgotten_by_the_checkpoint(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path)
        fill(manager.create("t", 0, TOPIC_ID, CONFIG))
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        manager.delete("t", 0)
        path = tmp_path / "cleaner-offset-checkpoint"
        await eventually(lambda: path.read_text() == "0\n0\n")
        await manager.close()

    in_runtime(test)


def test_the_broker_can_stop_in_the_middle_of_a_run(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path, **slow_settings())
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.is_cleaning(log))
        begun = time.monotonic()
        await manager.close()
        assert time.monotonic() - begun < 5
        again = await started(runtime, tmp_path)
        found = again.get("t", 0)
        assert found is not None
        assert len(all_records(found)) == 300
        await again.close()

    in_runtime(test)


@RUNTIMES
def test_reads_and_writes_stay_below_the_limit(tmp_path: Path, kind: type[OsRuntime]) -> None:
    async def test(runtime: OsRuntime) -> None:
        limit = 200_000
        settings = {
            "log_cleaner_io_max_bytes_per_second": limit,
            "log_cleaner_io_buffer_size": 8192,
        }
        manager = await started(runtime, tmp_path, **settings)
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log, count=600)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        metrics = manager.cleaner.metrics
        moved = 2 * metrics.bytes_read + metrics.bytes_written
        assert metrics.last_run_seconds >= 0.8 * moved / limit
        await manager.close()

    in_runtime(test, kind)


def test_a_damaged_log_is_given_up_and_the_others_are_cleaned(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path)
        bad = manager.create("bad", 0, TOPIC_ID, CONFIG)
        good = manager.create("good", 0, TOPIC_ID, CONFIG)
        fill(bad, count=400)
        fill(good)
        bad.flush()
        damage(Path(bad.segments[0].files.path), 5100)
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        assert len(all_records(good)) == 20
        assert "checksum" in manager.cleaner.uncleanable[bad]
        assert all(log_dir.online for log_dir in manager.dirs)
        await manager.close()

    in_runtime(test)


def test_a_full_disk_stops_compaction_and_not_the_broker(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        disk = FaultyDisk()
        runtime.disk = disk
        manager = await started(runtime, tmp_path)
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        log.flush()
        disk.fail("write", errno.ENOSPC, where=".cleaned")
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.broken_off > 1)
        assert all(log_dir.online for log_dir in manager.dirs)
        # It goes on trying: a file may be there for a moment.
        await eventually(
            lambda: not [n for n in file_names(log.directory) if n.endswith(".cleaned")]
        )
        disk.heal()
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        assert len(all_records(log)) == 20
        await manager.close()

    in_runtime(test, WithoutProcesses)


def test_a_broken_disk_takes_its_folder_offline(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        disk = FaultyDisk()
        runtime.disk = disk
        manager = await started(runtime, tmp_path)
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        log.flush()
        disk.fail("read", errno.EIO, where="00000.log")
        begin_work(manager)
        await eventually(lambda: not any(log_dir.online for log_dir in manager.dirs))
        assert log.failure is not None
        await eventually(lambda: not manager.cleaner.is_cleaning(log))
        await manager.close()

    in_runtime(test, WithoutProcesses)


def test_a_child_that_is_killed_is_replaced(tmp_path: Path) -> None:
    workers: list[ChildWorker] = []

    class Watched(OsRuntime):
        async def start_worker(self, module: str) -> Worker | None:
            workers.append(ChildWorker(module))
            return workers[-1]

    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, tmp_path, **slow_settings())
        log = manager.create("t", 0, TOPIC_ID, CONFIG)
        fill(log)
        begin_work(manager)
        await eventually(lambda: len(workers) == 1 and manager.cleaner.is_cleaning(log))
        workers[0]._process.kill()
        manager.configure(broker_config(tmp_path))
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        assert len(all_records(log)) == 20
        await manager.close()

    in_runtime(test, Watched)


def test_an_orphaned_child_ends_at_once(tmp_path: Path) -> None:
    """It must not go on writing where a new broker has begun to work."""
    script = textwrap.dedent("""
        import os, sys, time
        from ottla.runtime.worker import ChildWorker
        child = ChildWorker("ottla.broker.storage.cleaner.worker")
        print(child.pid, flush=True)
        time.sleep(60)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child_id = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _is_running(child_id):
        time.sleep(0.02)
    assert not _is_running(child_id)


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process_id}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def test_retention_follows_compaction_where_both_are_asked_for(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        config = TopicConfig(
            cleanup_policy=frozenset({"compact", "delete"}),
            segment_bytes=20_000,
            retention_ms=3_600_000,
            file_delete_delay_ms=0,
        )
        manager = await started(runtime, tmp_path, config)
        log = manager.create("t", 0, TOPIC_ID, config)
        fill(log)  # Years old by their timestamps.
        put(log, [(b"young", b"1")], now_ms=runtime.clock.wall_ms())
        begin_work(manager)
        await eventually(lambda: manager.cleaner.metrics.runs == 1)
        await eventually(lambda: log.log_start_offset == 300)
        assert pairs_of(all_records(log)) == [(300, b"young", b"1")]
        await manager.close()

    assert time.time() * 1000 - 3_600_000 > NOW_MS
    in_runtime(test)
