"""`python -m bench.compaction`: the speed of compaction, and its effect on the broker.

Two measures. *Speed*: one log of `--megabytes`, each key written four times over, compacted by a
child process as the broker does it; wall time, processor time and greatest memory. *Beside*: a
broker whose topic is compacted while a client produces to another one at a fixed rate; latencies
before and meanwhile. `--in-thread` runs the work inside the broker's process instead, to show the
benefit of the child process.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench import wire
from bench.brokers import Ottla
from bench.requests import good_answer
from ottla.broker.storage.cleaner.choice import assess
from ottla.broker.storage.cleaner.job import Finished, Memory, RunLimits
from ottla.broker.storage.cleaner.planning import plan_job
from ottla.broker.storage.cleaner.worker import MODULE
from ottla.broker.storage.log import Log
from ottla.config.topic import TopicConfig
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.runtime.clock import SystemClock
from ottla.runtime.os_disk import OsDisk
from ottla.runtime.worker import ChildWorker

BATCH_BYTES = 16_000
WRITES_PER_KEY = 4
MAP_BYTES = 128 << 20
BLOCK_BYTES = 256 << 10
RATE_PER_S = 500
NO_LIMIT = 1.7976931348623157e308
_IN_THREAD = """
import sys
from ottla.runtime.os_runtime import OsRuntime
async def start_worker(self, module): return None
OsRuntime.start_worker = start_worker
from ottla.cli.main import main
sys.argv[0] = "ottla"
main()
"""


class Speed(NamedTuple):
    bytes_read: int
    bytes_written: int
    records: int
    wall_s: float
    cpu_s: float
    peak_bytes: int

    def __str__(self) -> str:
        megabytes = self.bytes_read / 1e6
        return (
            f"{megabytes:.0f} MB, {self.records} records -> {self.bytes_written / 1e6:.0f} MB: "
            f"{megabytes / self.wall_s:.1f} MB/s by the clock, "
            f"{megabytes / self.cpu_s:.1f} MB/s of processor time, "
            f"{self.cpu_s / self.records * 1e6:.2f} us a record, "
            f"peak memory {self.peak_bytes / 1e6:.0f} MB"
        )


def measure_speed(folder: Path, megabytes: int, record_bytes: int) -> Speed:
    log = dirty_log(folder, megabytes * 1_000_000, record_bytes)
    chosen = assess(log, None, log.end_offset, log._clock.wall_ms())
    if chosen is None:
        raise RuntimeError("the log is not dirty")
    memory = Memory(map_bytes=MAP_BYTES, load_factor=0.9, block_bytes=BLOCK_BYTES)
    job = plan_job(chosen, memory, log._clock.wall_ms())
    worker = ChildWorker(MODULE)
    begun, cpu_before = time.monotonic(), _process_cpu_s(worker.pid)
    worker.send((job, RunLimits(NO_LIMIT)))
    while not isinstance(outcome := worker.receive(), Finished):
        if not hasattr(outcome, "replaced"):
            raise RuntimeError(str(outcome))
        worker.send(None)
    wall_s = time.monotonic() - begun
    cpu_s = _process_cpu_s(worker.pid) - cpu_before
    peak = _peak_bytes(worker.pid)
    worker.close()
    log.close(clean=False)
    stats = outcome.stats
    return Speed(
        stats.bytes_read, stats.bytes_written, stats.records_read, wall_s, max(cpu_s, 0.01), peak
    )


def dirty_log(folder: Path, total_bytes: int, record_bytes: int) -> Log:
    config = TopicConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=256 << 20)
    log = Log.open(OsDisk(), str(folder / "t-0"), "t", 0, config, SystemClock(), clean=True)
    chance, value = random.Random(1), os.urandom(record_bytes)
    count = total_bytes // record_bytes
    keys = max(1, count // WRITES_PER_KEY)
    per_batch = max(1, BATCH_BYTES // record_bytes)
    now_ms = log._clock.wall_ms()
    for _ in range(0, count, per_batch):
        records = [
            Record(index, now_ms + index, b"key-%012d" % chance.randrange(keys), value)
            for index in range(per_batch)
        ]
        batch = bytearray(build_batch(records))
        log.append(batch, read_header(batch), 0, now_ms)
    log.roll()
    log.flush()
    return log


# Beside a broker


class InThread(Ottla):
    """Compacts in a thread of the broker's own process."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _IN_THREAD, *super().command()[1:]]


def measure_beside(
    folder: Path, megabytes: int, record_bytes: int, seconds: float, *, in_thread: bool
) -> dict[str, list[float]]:
    """Return sorted latencies in ms, before, while and after the log is compacted."""
    segment_bytes = max(megabytes * 1_000_000 // 10, 1 << 20)
    options = {"log.cleaner.backoff.ms": "100", "log.segment.bytes": str(segment_bytes)}
    broker = (InThread if in_thread else Ottla)(folder / "broker", options)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.address})
        names = ["dirty", "other"]
        topics = [NewTopic(name, 1, config={"retention.ms": "-1"}) for name in names]
        for future in admin.create_topics(topics).values():
            future.result(30)
        _fill(broker, "dirty", megabytes * 1_000_000, record_bytes)
        alone = _latencies(broker, until=lambda begun: time.monotonic() - begun > seconds)
        _set(admin, "dirty", "cleanup.policy", "compact")
        checkpoint = broker.data / "cleaner-offset-checkpoint"
        beside = _latencies(broker, until=lambda _: checkpoint.exists())
        again = _latencies(broker, until=lambda begun: time.monotonic() - begun > seconds)
        return {"alone": sorted(alone), "beside": sorted(beside), "alone again": sorted(again)}
    finally:
        broker.stop()


def _fill(broker: Ottla, topic: str, total_bytes: int, record_bytes: int) -> None:
    chance, value = random.Random(1), os.urandom(record_bytes)
    keys = max(1, total_bytes // record_bytes // WRITES_PER_KEY)
    per_batch = max(1, BATCH_BYTES // record_bytes)
    sent = 0
    with wire.Peer(broker.port) as peer:
        while sent < total_bytes:
            payload = b"".join(
                wire.record(value, index, b"key-%012d" % chance.randrange(keys))
                for index in range(per_batch)
            )
            batch = wire.batch([None] * per_batch, payload=payload)
            good_answer(peer, wire.produce_frame(topic, 0, batch))
            sent += len(batch)


def _latencies(broker: Ottla, until: Callable[[float], bool]) -> list[float]:
    """Return latencies, counted from when each request was due."""
    frame = wire.produce_frame("other", 0, wire.batch([bytes(1024)]))
    found: list[float] = []
    ended = threading.Event()
    begun = time.monotonic()

    def watch() -> None:
        while not until(begun):
            time.sleep(0.05)
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    with wire.Peer(broker.port) as peer:
        good_answer(peer, frame)
        start, number = time.monotonic(), 0
        while not ended.is_set():
            due = start + number / RATE_PER_S
            if (pause := due - time.monotonic()) > 0:
                time.sleep(pause)
            peer.ask(frame)
            found.append((time.monotonic() - due) * 1e3)
            number += 1
    return found


def _set(admin: AdminClient, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    target = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([target]).values():
        future.result(30)


def at(ordered: list[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _process_cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_bytes(process_id: int) -> int:
    status = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found.group(1)) * 1024 if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--only", choices=("speed", "beside"))
    parser.add_argument("--in-thread", action="store_true", help="inside the broker's process")
    parser.add_argument("--folder", type=Path, default=None, help="where to put the logs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-compaction-", dir=options.folder) as name:
        folder = Path(name)
        size, each = options.megabytes, options.record_bytes
        if options.only != "beside":
            print("Speed:", measure_speed(folder, size, each))
        if options.only != "speed":
            found = measure_beside(folder, size, each, 10, in_thread=options.in_thread)
            for when, values in found.items():
                told = ", ".join(f"p{p:g} {at(values, p):.2f} ms" for p in (50, 99, 99.9))
                print(f"Produce {when}: {told} ({len(values)} requests at {RATE_PER_S}/s)")


if __name__ == "__main__":
    main()
