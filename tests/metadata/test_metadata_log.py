from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from metadata_cases import FOLDER, config, open_log, partition, topic, with_log

from ottla.broker.metadata.batches import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, split
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.delta import MetadataDelta
from ottla.broker.metadata.image import METADATA_TOPIC, MetadataImage
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.metadata.replay import MetadataLogDamaged
from ottla.broker.storage.errors import CorruptFile
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.metadata_records.no_op_record import NoOpRecord
from ottla.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from ottla.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    RegisterBrokerRecord,
)
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run


def segment(folder: Path) -> Path:
    return folder / f"{METADATA_TOPIC}-0" / f"{0:020d}.log"


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path):
    images: list[MetadataImage] = []

    async def write(log: MetadataLog) -> None:
        await log.append([topic(1), partition(1, 0)])
        await log.append([config("topic-1", "retention.ms", "5")])
        images.append(log.image)

    async def read(log: MetadataLog) -> None:
        images.append(log.image)

    with_log(tmp_path, write)
    with_log(tmp_path, read)
    written, found = images
    assert found.topics == written.topics
    assert found.configs == written.configs
    assert found.cluster_id == "cluster"


def test_every_start_begins_a_new_epoch_with_a_leader_change(tmp_path: Path):
    seen: list[tuple[int, int]] = []

    async def look(log: MetadataLog) -> None:
        seen.append((log.epoch, log.image.offset))
        await log.append([NoOpRecord()])

    for _ in range(3):
        with_log(tmp_path, look)
    epochs, offsets = zip(*seen, strict=True)
    assert epochs[0] < epochs[1] < epochs[2]
    assert offsets == (0, 2, 4)
    state = json.loads((tmp_path / f"{METADATA_TOPIC}-0" / "quorum-state").read_text())
    assert (state["leaderEpoch"], state["leaderId"]) == (epochs[2], 1)


def test_an_epoch_on_disk_is_not_led_twice_though_nothing_was_written_in_it(tmp_path: Path):
    async def nothing(log: MetadataLog) -> None:
        pass

    with_log(tmp_path, nothing)
    state = tmp_path / f"{METADATA_TOPIC}-0" / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":1', '"leaderEpoch":8'))
    seen: list[int] = []

    async def look(log: MetadataLog) -> None:
        seen.append(log.epoch)

    with_log(tmp_path, look)
    assert seen[0] > 8


def test_append_returns_the_offset_and_commits_publish_in_order(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        told: list[tuple[list[str], int]] = []

        def subscriber(delta: MetadataDelta, image: MetadataImage) -> None:
            told.append(([t.name for t in delta.created.values()], image.offset))

        log.subscribe(subscriber)
        offsets = await asyncio.gather(
            *(log.append([topic(n), partition(n, 0)]) for n in range(20))
        )
        assert offsets == [2 + 2 * n for n in range(20)]
        assert told == [([f"topic-{n}"], 2 + 2 * n) for n in range(20)]

    with_log(tmp_path, use)


def test_a_decision_sees_everything_appended_before_it_committed_or_not(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        seen: list[int] = []

        def decide(number: int):
            def with_image(image: MetadataImage) -> Decision[int]:
                seen.append(len(image.topics))
                return Decision([topic(number)], number)

            return with_image

        assert await asyncio.gather(*(log.write(decide(n)) for n in range(5))) == [0, 1, 2, 3, 4]
        assert seen == [0, 1, 2, 3, 4]

    with_log(tmp_path, use)


def test_appends_during_an_fsync_are_committed_together_by_the_next_one(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        storage = log.quorum.log.storage
        flush, gate, syncs = storage.flush, threading.Event(), []

        def slow_flush() -> None:
            syncs.append(log.end_offset)
            flush()
            gate.wait(10)

        log.quorum.log.storage = _Replaced(storage, flush=slow_flush)  # type: ignore[assignment]
        first = asyncio.create_task(log.append([topic(0)]))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(log.append([topic(n)])) for n in range(1, 50)]
        await asyncio.sleep(0.05)
        assert not first.done()
        assert not log.image.topics
        assert len(log.pending.topics) == 50
        gate.set()
        await asyncio.gather(first, *rest)
        assert len(syncs) == 2
        assert len(log.image.topics) == 50

    with_log(tmp_path, use)


WIDE = 9_000


def wide(image: MetadataImage) -> Decision[int]:
    return Decision([topic(1), *(partition(1, n) for n in range(WIDE))], len(image.topics))


def test_others_have_their_turn_while_a_large_decision_is_written_but_no_decision(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        seen: list[int] = []

        def narrow(image: MetadataImage) -> Decision[int]:
            found = image.topics.get("topic-1")
            seen.append(0 if found is None else len(found.partitions))
            return Decision([topic(2)], 2)

        writing = asyncio.create_task(log.write(wide, paced=True))
        await asyncio.sleep(0)
        after = asyncio.create_task(log.write(narrow))
        turns = 0
        while not log.pending.topics:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 1
        assert len(log.pending.topics["topic-1"].partitions) == WIDE
        assert await writing == 0
        assert await after == 2
        assert seen == [WIDE]

    with_log(tmp_path, use)

    async def read(log: MetadataLog) -> None:
        assert len(log.image.topics["topic-1"].partitions) == WIDE

    with_log(tmp_path, read)


def test_a_large_decision_is_void_if_another_term_begins_while_it_is_written(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        writing = asyncio.create_task(log.write(wide, paced=True))
        await asyncio.sleep(0)
        assert not log.pending.topics
        epoch = log.epoch
        log.quorum.resign()
        while not (log.is_leader and log.epoch > epoch):
            assert not log.pending.topics
            await asyncio.sleep(0.001)
        with pytest.raises(KafkaError) as refused:
            await writing
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert not log.pending.topics
        assert await log.append([topic(1), partition(1, 0)]) == log.image.offset

    with_log(tmp_path, use)


def test_who_decided_is_answered_when_all_subscribers_are_done(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        rest: list[asyncio.Future[None]] = []
        told = asyncio.Event()

        def slow(delta: MetadataDelta, image: MetadataImage) -> asyncio.Future[None]:
            told.set()
            rest.append(asyncio.get_running_loop().create_future())
            return rest[-1]

        log.subscribe(slow)
        log.subscribe(slow)
        writing = asyncio.create_task(log.append([topic(1)]))
        await told.wait()
        assert "topic-1" in log.image.topics
        rest[0].set_result(None)
        await asyncio.sleep(0.01)
        assert not writing.done()
        rest[1].set_result(None)
        await writing

    with_log(tmp_path, use)


class _Replaced:
    """A log with one method replaced."""

    def __init__(self, log: object, **replaced: object) -> None:
        self.__dict__.update(replaced)
        self._real = log

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


@pytest.mark.parametrize("method", ["flush", "append"])
def test_a_failed_disk_fails_all_callers_and_tells_the_node_once(tmp_path: Path, method: str):
    async def main(runtime: OsRuntime) -> None:
        failures: list[Exception] = []
        log = await open_log(runtime, tmp_path, failures=failures)
        await log.append([topic(0)])
        committed = log.image

        def broken(*arguments: object) -> None:
            raise OSError(5, "Input/output error")

        storage = log.quorum.log.storage
        log.quorum.log.storage = _Replaced(  # type: ignore[assignment]
            storage, **{method: broken}
        )
        results = await asyncio.gather(
            *(log.append([topic(n)]) for n in range(1, 5)), return_exceptions=True
        )
        results += await asyncio.gather(log.append([topic(9)]), return_exceptions=True)
        assert [r.code for r in results if isinstance(r, KafkaError)] == (
            [ErrorCode.KAFKA_STORAGE_ERROR] * 5
        )
        assert len(failures) == 1
        assert log.image is committed
        assert log.pending is committed
        await log.close()

    run(main)


def test_a_write_of_nothing_waits_for_what_was_appended_before(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        creating = asyncio.create_task(log.append([topic(1)]))
        await asyncio.sleep(0)
        answer = await log.write(lambda image: Decision([], "topic-1" in image.topics))
        assert answer
        assert creating.done()
        assert "topic-1" in log.image.topics

    with_log(tmp_path, use)


def test_records_that_do_not_fit_never_reach_the_log(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        end = log.end_offset
        with pytest.raises(ValueError, match="unknown"):
            await log.append([partition(1, 0)])
        assert log.end_offset == end
        await log.append([topic(1), partition(1, 0)])

    with_log(tmp_path, use)


def test_a_subscriber_that_fails_keeps_nobody_else_from_the_news(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        told: list[int] = []

        def broken(delta: MetadataDelta, image: MetadataImage) -> None:
            raise RuntimeError("no")

        log.subscribe(broken)
        log.subscribe(lambda delta, image: told.append(image.offset))
        await log.append([topic(1)])
        assert told == [1]

    with_log(tmp_path, use)


def test_a_cancelled_caller_does_not_stop_the_commit(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        caller = asyncio.create_task(log.append([topic(1)]))
        await asyncio.sleep(0)
        caller.cancel()
        await log.append([topic(2)])
        assert sorted(log.image.topics) == ["topic-1", "topic-2"]

    with_log(tmp_path, use)


def test_too_much_for_one_batch_is_refused_unless_it_may_be_divided(tmp_path: Path):
    async def use(log: MetadataLog) -> None:
        many = [NoOpRecord() for _ in range(BATCH_RECORDS_MAX + 1)]
        with pytest.raises(KafkaError) as refused:
            await log.append(many)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        before = log.end_offset
        await log.write(lambda image: Decision(many, None), divisible=True)
        assert log.end_offset == before + len(many)

    with_log(tmp_path, use)
    with_log(tmp_path, lambda log: log.append([topic(1)]))  # type: ignore[arg-type, return-value]


def test_batches_are_bounded_by_count_and_size():
    parts = split([b""] * (2 * BATCH_RECORDS_MAX + 1))
    assert [len(part) for part in parts] == [BATCH_RECORDS_MAX, BATCH_RECORDS_MAX, 1]
    third = b"x" * (BATCH_BYTES_MAX // 3)
    assert [len(part) for part in split([third] * 7)] == [3, 3, 1]
    assert [len(part) for part in split([b"x" * (BATCH_BYTES_MAX + 1), b""])] == [1, 1]


def test_a_torn_tail_is_cut_and_the_rest_stays(tmp_path: Path):
    async def write(log: MetadataLog) -> None:
        await log.append([topic(1), partition(1, 0)])

    with_log(tmp_path, write)
    data = segment(tmp_path).read_bytes()
    segment(tmp_path).write_bytes(data + data[-100:-10])  # power went while it was written

    async def look(log: MetadataLog) -> None:
        assert list(log.image.topics) == ["topic-1"]
        await log.append([topic(3)])

    with_log(tmp_path, look)


def test_a_record_nobody_knows_keeps_the_node_from_starting(tmp_path: Path):
    from ottla.broker.metadata import batches as module

    async def write(log: MetadataLog) -> None:
        real = module.encode_record
        module.encode_record = lambda record: b"\x01\x63\x00"
        try:
            await log.append([NoOpRecord()])
        finally:
            module.encode_record = real

    with_log(tmp_path, write)
    with pytest.raises(MetadataLogDamaged, match="offset 1 is damaged"):
        with_log(tmp_path, write)


def kafka_dump(kafka_libs: Path, file: Path) -> str:
    tool = "org.apache.kafka.tools.DumpLogSegments"
    return subprocess.run(
        ["java", "-cp", f"{kafka_libs}/*", tool, "--cluster-metadata-decoder", "--files", file],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout


def dumped_records(dump: str) -> list[dict[str, Any]]:
    return [
        json.loads(line.split("payload: ")[1])
        for line in dump.splitlines()
        if "payload" in line and '"type"' in line
    ]


def test_kafkas_own_tool_reads_log_and_snapshot(tmp_path: Path, kafka_libs: Path):
    broker = RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=b"i" * 16,
        broker_epoch=2,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
        log_dirs=[FOLDER],
    )
    records: list[Message] = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        broker,
        topic(1, "orders"),
        partition(1, 0),
        partition(1, 1),
        config("orders", "retention.ms", "5"),
        ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000),
    ]

    async def main(runtime: OsRuntime) -> None:
        often = {"metadata.log.max.record.bytes.between.snapshots": "300"}
        log = await open_log(runtime, tmp_path, settings=often)
        await log.append(records)
        await log.close()

    run(main)
    dump = kafka_dump(kafka_libs, segment(tmp_path))
    assert '"leaderId":1' in dump
    assert "isvalid: false" not in dump
    written = dumped_records(dump)
    assert [record["type"] for record in written] == [
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
    ]
    assert written[2]["data"]["name"] == "orders"
    (snapshot,) = segment(tmp_path).parent.glob("*.checkpoint")
    dump = kafka_dump(kafka_libs, snapshot)
    assert "SnapshotHeader" in dump
    assert "SnapshotFooter" in dump
    kept = dumped_records(dump)
    assert [record["type"] for record in kept] == [record["type"] for record in written]
    assert kept[1:6] == written[1:6]


def test_a_flipped_bit_in_a_log_closed_cleanly_keeps_the_node_from_starting(tmp_path: Path):
    with_log(tmp_path, lambda log: log.append([topic(1, "orders")]))  # type: ignore[arg-type, return-value]
    data = segment(tmp_path).read_bytes()
    segment(tmp_path).write_bytes(data.replace(b"orders", b"arders"))

    async def main(runtime: OsRuntime) -> None:
        await open_log(runtime, tmp_path, clean=True)

    with pytest.raises(CorruptFile, match="where offset 1 begins: checksum"):
        run(main)


# What was committed and is gone


def committed(folder: Path) -> int:
    found = json.loads((folder / f"{METADATA_TOPIC}-0" / "committed-offset").read_text())
    offset: int = found["committedOffset"]
    return offset


def test_what_is_known_to_be_committed_is_noted_at_the_start_and_at_the_end(tmp_path: Path) -> None:
    async def write(log: MetadataLog) -> None:
        path = tmp_path / f"{METADATA_TOPIC}-0" / "committed-offset"
        deadline = time.monotonic() + 10
        while not path.exists() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert committed(tmp_path) >= 1
        await log.append([topic(1), partition(1, 0)])

    with_log(tmp_path, write)
    assert committed(tmp_path) == 3


def test_a_damaged_note_of_what_was_committed_stops_nobody(tmp_path: Path) -> None:
    async def nothing(log: MetadataLog) -> None:
        pass

    with_log(tmp_path, nothing)
    for damaged in ("", "[]", "{}", '{"committedOffset": "x"}'):
        (tmp_path / f"{METADATA_TOPIC}-0" / "committed-offset").write_text(damaged)
        with_log(tmp_path, nothing)
    assert committed(tmp_path) == 5


@pytest.mark.parametrize(
    ("roles", "says"),
    [("controller", "move .* away: this node then fetches"), ("broker", None)],
)
def test_a_controller_among_others_does_not_vote_without_what_it_acknowledged(
    tmp_path: Path, roles: str, says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def write(log: MetadataLog) -> None:
        await log.append([topic(1), partition(1, 0)])

    with_log(tmp_path, write)
    with segment(tmp_path).open("r+b") as file:
        file.truncate(50)
    settings = BrokerConfig.parse(
        {
            "node.id": "1",
            "process.roles": roles,
            "log.dirs": str(tmp_path),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3"
            if roles == "controller"
            else "2@127.0.0.1:2,3@127.0.0.1:3",
            "listeners": "CONTROLLER://127.0.0.1:1" if roles == "controller" else "PLAINTEXT://:1",
        }
    )

    async def opening(runtime: OsRuntime) -> None:
        opened = await MetadataLog.open(
            runtime,
            str(tmp_path),
            node_id=1,
            cluster_id="cluster",
            config=settings,
            clean=True,
            on_failure=lambda error: None,
        )
        await opened.close()

    if says is None:
        run(opening)
        assert "They are fetched again" in caplog.text
    else:
        with pytest.raises(CorruptFile, match=says):
            run(opening)
