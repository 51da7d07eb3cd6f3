"""All logs in all data folders, with the real runtime and with disks that fail."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from storage_tools import NOW_MS, TOPIC_ID, FaultyDisk, append, file_names, values_of

from ottla.broker.storage.dirs.log_dir import LogDir, LogDirInUse, LogDirUnidentified
from ottla.broker.storage.errors import LogDirFailure, LogFailed, StorageError
from ottla.broker.storage.log_manager import LogManager
from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.uuids import to_text
from ottla.runtime.os_runtime import OsRuntime

FIXTURES = Path(__file__).parent / "fixtures" / "kafka"
DEFAULT = TopicConfig()


def in_runtime(test: Callable[[OsRuntime], Awaitable[None]]) -> None:
    async def main() -> None:
        runtime = OsRuntime()
        try:
            await test(runtime)
        finally:
            await runtime.close()

    asyncio.run(main())


def broker_config(*folders: Path, **settings: Any) -> BrokerConfig:
    given = {"log.dirs": ",".join(str(folder) for folder in folders)}
    return BrokerConfig.parse(
        given | {name.replace("_", "."): str(value) for name, value in settings.items()}
    )


async def started(
    runtime: OsRuntime, config: BrokerConfig, topic: TopicConfig = DEFAULT, **options: Any
) -> LogManager:
    manager = LogManager(runtime, config, **options)
    await manager.open()
    await manager.load(lambda _: topic)
    return manager


async def eventually(condition: Callable[[], bool], seconds: float = 5) -> None:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen in time")


def test_logs_survive_a_clean_restart(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        cluster_id, ids = manager.dirs.cluster_id, manager.dirs.directory_ids()
        log = manager.create("t", 3, TOPIC_ID, DEFAULT)
        append(log, b"a", b"b")
        log.increment_log_start_offset(1)
        await manager.close(broker_epoch=5)
        marker = (tmp_path / ".kafka_cleanshutdown").read_text()
        assert marker == '{"version":0,"brokerEpoch":5}'
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 3 2\n"
        assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 3 1\n"

        again = await started(runtime, broker_config(tmp_path))
        assert (again.dirs.cluster_id, again.dirs.directory_ids()) == (cluster_id, ids)
        assert again.dirs.was_clean(str(tmp_path))
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        found = again.get("t", 3)
        assert found is not None
        assert values_of(found) == [(1, b"b")]
        assert found.topic_id == TOPIC_ID
        assert again.get("t", 0) is None
        await again.close()

    in_runtime(test)


@pytest.mark.parametrize("damage", ["emptied", "removed"])
def test_the_lost_end_of_a_log_that_was_closed_cleanly_is_an_error(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        append(manager.create("t", 3, TOPIC_ID, DEFAULT), b"a", b"b", b"c")
        append(manager.create("whole", 0, TOPIC_ID, DEFAULT), b"a")
        await manager.close()
        if damage == "emptied":
            (tmp_path / "t-3" / "00000000000000000000.log").write_bytes(b"")
        else:
            for file in (tmp_path / "t-3").iterdir():
                file.unlink()
        caplog.clear()
        again = await started(runtime, broker_config(tmp_path))
        await again.close()

    in_runtime(test)
    told = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert len(told) == 1
    assert "t-3 lacks offsets 0 to 2" in told[0]


def test_logs_survive_a_crash(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        for partition in range(5):
            append(manager.create("t", partition, TOPIC_ID, DEFAULT), b"a", b"b")
        for log_dir in manager.dirs:
            log_dir.release()  # As the end of the process does.
        again = await started(runtime, broker_config(tmp_path))
        assert not again.dirs.was_clean(str(tmp_path))
        assert len(again.logs()) == 5
        assert all(values_of(log) == [(0, b"a"), (1, b"b")] for log in again.logs())
        again.start_background_work(dict)
        await eventually(lambda: all(log.recovery_point == 2 for log in again.logs()))
        await again.close()

    in_runtime(test)


def test_a_folder_serves_only_one_broker_at_a_time(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        with pytest.raises(LogDirInUse, match="another broker"):
            await LogManager(runtime, broker_config(tmp_path)).open()
        await manager.close()
        again = await started(runtime, broker_config(tmp_path))
        await again.close()

    in_runtime(test)


def test_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        folders = [tmp_path / name for name in "abc"]
        manager = await started(runtime, broker_config(*folders))
        for partition in range(9):
            manager.create("t", partition, TOPIC_ID, DEFAULT)
        counts = [len(manager.logs_in(log_dir)) for log_dir in manager.dirs]
        assert counts == [3, 3, 3]
        assert len(set(manager.dirs.directory_ids())) == 3
        await manager.close()

    in_runtime(test)


def test_a_log_dir_of_kafka_opens(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(FIXTURES / "clean", folder)

    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(folder))
        assert manager.dirs.cluster_id == "5L6g3nShT-eMCtK--X86sw"
        assert manager.dirs.was_clean(str(folder))
        assert sorted((log.topic, log.partition, log.end_offset) for log in manager.logs()) == [
            ("fixture", 0, 210),
            ("fixture", 1, 32),
        ]
        assert manager.high_watermarks_at_start[("fixture", 0)] == 210
        await manager.close()

    in_runtime(test)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("version=1\nnode.id=7\ncluster.id=5L6g3nShT-eMCtK--X86sw\n", "belongs to node 7"),
        ("version=1\nnode.id=1\ncluster.id=other\n", "different clusters"),
    ],
)
def test_folders_of_others_are_refused(tmp_path: Path, content: str, complaint: str) -> None:
    async def test(runtime: OsRuntime) -> None:
        shutil.copytree(FIXTURES / "clean", tmp_path / "a")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "meta.properties").write_text(content)
        manager = LogManager(runtime, broker_config(tmp_path / "a", tmp_path / "b"))
        with pytest.raises(StorageError, match=complaint):
            await manager.open()
        # Nothing stays locked.
        alone = LogManager(runtime, broker_config(tmp_path / "a"))
        await alone.open()
        await alone.close()

    in_runtime(test)


def test_the_same_partition_in_two_folders_is_refused(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        for name in "ab":
            manager = await started(runtime, broker_config(tmp_path / name))
            append(manager.create("t", 0, TOPIC_ID, DEFAULT), b"a")
            await manager.close()
        own = (tmp_path / "a" / "meta.properties").read_text()
        (tmp_path / "b" / "meta.properties").write_text(
            re.sub("directory.id=.*", f"directory.id={to_text(TOPIC_ID)}", own)
        )
        manager = LogManager(runtime, broker_config(tmp_path / "a", tmp_path / "b"))
        await manager.open()
        with pytest.raises(StorageError, match="same partition"):
            await manager.load(lambda _: DEFAULT)
        await manager.close()

    in_runtime(test)


def test_an_empty_log_beside_one_in_use_is_set_aside(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path / "a", tmp_path / "b"))
        append(manager.create("t", 0, TOPIC_ID, DEFAULT), b"a")
        await manager.close()
        (tmp_path / "b" / "t-0").mkdir()
        manager = await started(runtime, broker_config(tmp_path / "b", tmp_path / "a"))
        (log,) = manager.logs()
        assert (log.parent_directory, values_of(log)) == (str(tmp_path / "a"), [(0, b"a")])
        assert [
            name.endswith("-stray") for name in os.listdir(tmp_path / "b") if "t-0" in name
        ] == [True]
        await manager.close()

    in_runtime(test)


def test_partitions_without_meta_properties_are_refused_and_not_adopted(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        manager.create("t", 0, TOPIC_ID, DEFAULT)
        await manager.close()
        (tmp_path / "meta.properties").unlink()
        with pytest.raises(LogDirUnidentified, match=r"t-0.*no meta.properties.*put the file back"):
            await LogManager(runtime, broker_config(tmp_path)).open()
        assert not (tmp_path / "meta.properties").exists()

    in_runtime(test)


def test_a_deleted_partition_is_gone_at_once_and_its_files_soon(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        topic = TopicConfig(file_delete_delay_ms=50)
        manager = await started(runtime, broker_config(tmp_path), topic)
        append(manager.create("t", 0, TOPIC_ID, topic), b"a")
        manager.start_background_work(dict)
        manager.delete("t", 0)
        manager.delete("t", 0)
        assert manager.get("t", 0) is None
        doomed = [name for name in os.listdir(tmp_path) if name.endswith("-delete")]
        assert len(doomed) == 1
        fresh = manager.create("t", 0, bytes(reversed(TOPIC_ID)), topic)
        assert values_of(fresh) == []
        await eventually(lambda: not (tmp_path / doomed[0]).exists())
        await manager.close()

    in_runtime(test)


def test_a_deletion_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        doomed = tmp_path / f"t-0.{'ab' * 16}-delete"
        doomed.mkdir()
        (doomed / "00000000000000000000.log").write_bytes(b"x")
        manager = await started(runtime, broker_config(tmp_path, log_segment_delete_delay_ms=10))
        manager.start_background_work(dict)
        await eventually(lambda: not doomed.exists())
        await manager.close()

    in_runtime(test)


def test_retention_runs_by_itself(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        topic = TopicConfig(segment_bytes=300, retention_ms=1000, file_delete_delay_ms=0)
        config = broker_config(
            tmp_path, log_retention_check_interval_ms=20, log_initial_task_delay_ms=0
        )
        manager = await started(runtime, config, topic)
        log = manager.create("t", 0, TOPIC_ID, topic)
        for _ in range(6):
            append(log, b"." * 100, timestamp=NOW_MS)
        assert len(log.segments) > 2
        manager.start_background_work(lambda: {("t", 0): log.end_offset})
        await eventually(lambda: log.log_start_offset == 6)
        await eventually(lambda: not [n for n in file_names(log.directory) if "deleted" in n])
        await manager.close()

    in_runtime(test)


def test_flushes_follow_flush_ms_and_rolls(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        topic = TopicConfig(flush_ms=30)
        manager = await started(runtime, broker_config(tmp_path), topic)
        log = manager.create("t", 0, TOPIC_ID, topic)
        manager.start_background_work(dict)
        append(log, b"a")
        await eventually(lambda: log.recovery_point == 1)
        lazy = manager.create("t", 1, TOPIC_ID, DEFAULT)
        append(lazy, b"a")
        lazy.roll()
        append(lazy, b"b")
        await eventually(lambda: lazy.recovery_point == 1)
        await manager.close()

    in_runtime(test)


def test_checkpoints_are_written_from_time_to_time(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        config = broker_config(
            tmp_path,
            log_flush_offset_checkpoint_interval_ms=20,
            log_initial_task_delay_ms=0,
            replica_high_watermark_checkpoint_interval_ms=20,
        )
        manager = await started(runtime, config)
        log = manager.create("t", 0, TOPIC_ID, DEFAULT)
        manager.start_background_work(lambda: {("t", 0): 7, ("gone", 0): 1})
        append(log, b"a")
        log.flush()
        points = tmp_path / "recovery-point-offset-checkpoint"
        await eventually(lambda: points.exists() and points.read_text() == "0\n1\nt 0 1\n")
        marks = tmp_path / "replication-offset-checkpoint"
        await eventually(lambda: marks.exists() and marks.read_text() == "0\n1\nt 0 7\n")
        await manager.close()

    in_runtime(test)


def test_a_truncation_takes_the_checkpoint_back_soon(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        log = manager.create("t", 0, TOPIC_ID, DEFAULT)
        append(log, b"a")
        append(log, b"b")
        log.flush()
        log.truncate_to(1)
        points = tmp_path / "recovery-point-offset-checkpoint"
        await eventually(lambda: points.exists() and points.read_text() == "0\n1\nt 0 1\n")
        await manager.close()

    in_runtime(test)


def test_a_truncation_while_the_checkpoint_is_written_takes_it_back_soon_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        first, second = (manager.create("t", index, TOPIC_ID, DEFAULT) for index in range(2))
        for log in (first, second):
            append(log, b"a")
            append(log, b"b")
            log.flush()
        write = manager.housekeeping.checkpoint_dir

        async def write_and_cut(log_dir: LogDir) -> None:
            await write(log_dir)
            if second.end_offset > 1:
                second.truncate_to(1)

        monkeypatch.setattr(manager.housekeeping, "checkpoint_dir", write_and_cut)
        first.truncate_to(1)
        points = tmp_path / "recovery-point-offset-checkpoint"
        both = "0\n2\nt 0 1\nt 1 1\n"
        await eventually(lambda: points.exists() and points.read_text() == both)
        await manager.close()

    in_runtime(test)


def test_a_high_watermark_is_not_saved_before_a_truncation_is_on_disk(tmp_path: Path) -> None:
    """Power loss would bring the truncated records back, and they would count as committed."""

    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        logs = [manager.create("t", index, TOPIC_ID, DEFAULT) for index in range(2)]
        manager.housekeeping._high_watermarks = lambda: {("t", 0): 1, ("t", 1): 1}
        for log in logs:
            append(log, b"a")
            append(log, b"b")
        logs[0].truncate_to(1)
        marks = tmp_path / "replication-offset-checkpoint"
        await manager.housekeeping._save_marks()
        assert marks.read_text() == "0\n1\nt 1 1\n"
        await manager.housekeeping._settle_cuts()
        await manager.housekeeping._save_marks()
        assert marks.read_text() == "0\n2\nt 0 1\nt 1 1\n"
        await manager.close()

    in_runtime(test)


def test_a_folder_that_cannot_be_opened_is_offline_from_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(runtime: OsRuntime) -> None:
        (tmp_path / "bad").write_text("a file where a folder should be")
        manager = await started(runtime, broker_config(tmp_path / "good", tmp_path / "bad"))
        assert [log_dir.path for log_dir in manager.dirs.online()] == [str(tmp_path / "good")]
        assert manager.dirs.is_offline(TOPIC_ID)
        assert not manager.dirs.is_offline(manager.dirs.directory_ids()[0])
        assert not manager.dirs.is_offline(bytes(16))
        manager.create("t", 0, TOPIC_ID, DEFAULT)
        await manager.close()
        with pytest.raises(StorageError, match="none of the data folders"):
            await LogManager(runtime, broker_config(tmp_path / "bad")).open()

    with caplog.at_level(logging.ERROR):
        in_runtime(test)
    assert str(tmp_path / "bad") in caplog.text


def test_a_disk_that_fails_takes_its_logs_offline_and_no_others(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        disk = FaultyDisk()
        runtime.disk = disk  # type: ignore[assignment]
        failed: list[tuple[str, BaseException]] = []
        manager = await started(
            runtime,
            broker_config(tmp_path / "a", tmp_path / "b"),
            on_dir_failed=lambda path, cause: failed.append((path, cause)),
        )
        logs = [manager.create("t", partition, TOPIC_ID, DEFAULT) for partition in range(4)]
        lost = [log for log in logs if log.parent_directory == str(tmp_path / "b")]
        kept = [log for log in logs if log not in lost]
        assert len(lost) == len(kept) == 2
        disk.fail("write", errno.ENOSPC, where=lost[0].directory)
        with pytest.raises(LogDirFailure) as caught:
            append(lost[0], b"a")
        manager.fail_dir(caught.value.directory, caught.value.cause)
        manager.fail_dir(caught.value.directory, caught.value.cause)
        assert failed == [(str(tmp_path / "b"), caught.value.cause)]
        with pytest.raises(LogFailed):
            append(lost[1], b"a")
        with pytest.raises(LogFailed):
            lost[1].read(0, 100, 0)
        assert sorted(manager.logs(), key=repr) == sorted(kept, key=repr)
        append(kept[0], b"still here")
        assert manager.create("u", 0, TOPIC_ID, DEFAULT).parent_directory == str(tmp_path / "a")
        disk.heal()
        await manager.close()
        assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "b" / ".kafka_cleanshutdown").exists()

    in_runtime(test)


def test_creating_on_a_full_disk_goes_to_the_next_folder(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        disk = FaultyDisk()
        runtime.disk = disk  # type: ignore[assignment]
        manager = await started(runtime, broker_config(tmp_path / "a", tmp_path / "b"))
        disk.fail("make_dirs", errno.ENOSPC, where=str(tmp_path / "a"))
        log = manager.create("t", 0, TOPIC_ID, DEFAULT)
        assert log.parent_directory == str(tmp_path / "b")
        assert not manager.dirs[0].online
        disk.fail("make_dirs", errno.ENOSPC, where=str(tmp_path))
        with pytest.raises(LogDirFailure):
            manager.create("t", 1, TOPIC_ID, DEFAULT)
        assert not manager.dirs.online()
        with pytest.raises(KafkaError) as caught:
            manager.create("t", 2, TOPIC_ID, DEFAULT)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await manager.close()

    in_runtime(test)


def test_a_read_error_while_loading_takes_the_folder_offline(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        disk = FaultyDisk()
        runtime.disk = disk  # type: ignore[assignment]
        folders = (tmp_path / "a", tmp_path / "b")
        manager = await started(runtime, broker_config(*folders))
        for partition in range(4):
            append(manager.create("t", partition, TOPIC_ID, DEFAULT), b"a")
        await manager.close()
        disk.fail("read", errno.EIO, where=str(tmp_path / "b"))
        failed: list[str] = []
        again = await started(
            runtime,
            broker_config(*folders),
            on_dir_failed=lambda path, _: failed.append(path),
        )
        assert failed == [str(tmp_path / "b")]
        assert len(again.logs()) == 2
        disk.heal()
        await again.close()
        assert not (tmp_path / "b" / ".kafka_cleanshutdown").exists()
        healed = await started(runtime, broker_config(*folders))
        assert len(healed.logs()) == 4
        assert all(values_of(log) == [(0, b"a")] for log in healed.logs())
        await healed.close()

    in_runtime(test)


def test_a_log_in_an_old_format_is_unusable_and_the_rest_goes_on(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        from test_storage_recovery import legacy_message

        await (await started(runtime, broker_config(tmp_path))).close()
        (tmp_path / "old-0").mkdir()
        (tmp_path / "old-0" / "00000000000000000000.log").write_bytes(legacy_message(0))
        manager = await started(runtime, broker_config(tmp_path))
        assert manager.get("old", 0) is None
        with pytest.raises(LogFailed, match="old format"):
            manager.create("old", 0, TOPIC_ID, DEFAULT)
        manager.create("new", 0, TOPIC_ID, DEFAULT)
        await manager.close()

    in_runtime(test)


def test_damaged_checkpoints_are_ignored(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        append(manager.create("t", 0, TOPIC_ID, DEFAULT), b"a", b"b")
        await manager.close()
        for name in file_names(tmp_path):
            if name.endswith("-checkpoint"):
                (tmp_path / name).write_bytes(b"\x00\xffnoise")
        (tmp_path / ".kafka_cleanshutdown").unlink()
        again = await started(runtime, broker_config(tmp_path))
        assert values_of(again.logs()[0]) == [(0, b"a"), (1, b"b")]
        await again.close()

    in_runtime(test)


def test_a_folder_that_was_never_loaded_keeps_its_checkpoints(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        append(manager.create("t", 0, TOPIC_ID, DEFAULT), b"a")
        await manager.close()
        before = (tmp_path / "recovery-point-offset-checkpoint").read_text()
        aborted = LogManager(runtime, broker_config(tmp_path))
        await aborted.open()
        await aborted.close()
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == before
        assert (tmp_path / ".kafka_cleanshutdown").exists()

    in_runtime(test)


def test_the_metadata_log_and_strangers_are_left_alone(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        await (await started(runtime, broker_config(tmp_path))).close()
        for name in ("__cluster_metadata-0", "lost+found", f"t-0.{'ab' * 16}-stray", "not-a-log"):
            (tmp_path / name).mkdir()
        manager = await started(runtime, broker_config(tmp_path))
        assert manager.logs() == []
        await manager.close()
        assert len([name for name in os.listdir(tmp_path) if "-" in name and "." not in name]) >= 2

    in_runtime(test)


def test_logs_that_nobody_knows_are_set_aside(tmp_path: Path) -> None:
    async def test(runtime: OsRuntime) -> None:
        manager = await started(runtime, broker_config(tmp_path))
        for partition in range(2):
            append(manager.create("t", partition, TOPIC_ID, DEFAULT), b"a")
        moved = manager.set_aside_strays(lambda log: log.partition == 0)
        assert [path.endswith("-stray") for path in moved] == [True]
        assert [log.partition for log in manager.logs()] == [0]
        assert "00000000000000000000.log" in os.listdir(moved[0])
        assert values_of(manager.create("t", 1, bytes(reversed(TOPIC_ID)), DEFAULT)) == []
        await manager.close()
        again = await started(runtime, broker_config(tmp_path))
        assert len(again.logs()) == 2
        await again.close()

    in_runtime(test)
