"""`python -m bench.records [SECONDS]`: the cost of a record, compiled and in Python.

Batches of 16 KB with records of `--value-bytes` and 16-byte keys. Each figure is the best of
several runs, since disturbances only make a run slower.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.client.values import ConsumerRecord
from ottla.records import engine
from ottla.records.payload import encode_records
from ottla.records.pure import (
    consumer_records,
    key_offsets,
    murmur2,
    record_columns,
    record_copy,
    survey_records,
    writer,
)
from ottla.records.record import Record

BATCH_BYTES = 16_384
RUNS = 5
NOW_MS = 1_700_000_000_000
BIG = 1 << 30


PURE = SimpleNamespace(
    consumer_records=consumer_records.consumer_records,
    murmur2=murmur2.murmur2,
    partition_rows=murmur2.partition_rows,
    PayloadWriter=writer.PayloadWriter,
    RecordColumns=record_columns.RecordColumns,
    survey_records=survey_records.survey_records,
    KeyOffsets=key_offsets.KeyOffsets,
    copy_records=record_copy.copy_records,
)
"""The implementation in Python, under the engine's names."""


class Sample:
    """A batch, and the same records as columns."""

    def __init__(self, value_bytes: int, header_count: int) -> None:
        size = value_bytes + 30
        headers = tuple((f"header-{i}", b"some value") for i in range(header_count))
        self.rows = [
            Record(i, NOW_MS + i // 10, b"key-%012d" % i, bytes(value_bytes), headers)
            for i in range(max(1, BATCH_BYTES // size))
        ]
        self.count = len(self.rows)
        self.payload = encode_records(self.rows, 0, NOW_MS)
        columns = PURE.RecordColumns(True)
        columns.add(self.payload, self.count, 0, NOW_MS, None, 0, BIG)
        self.columns = columns.take()


def appending(side: Any, sample: Sample) -> Callable[[], object]:
    made = side.PayloadWriter()

    def append() -> None:
        made.clear()
        for row in sample.rows:
            made.append(row[1], row[2], row[3], row[4])

    return append


def extending(side: Any, sample: Sample) -> Callable[[], object]:
    made = side.PayloadWriter()

    def extend() -> None:
        made.clear()
        made.extend_rows(sample.columns, None, 0, sample.count, BIG)

    return extend


def reading(side: Any, sample: Sample) -> Callable[[], object]:
    return lambda: side.consumer_records(
        *(sample.payload, sample.count, 0, NOW_MS, None, 0, "payments", 3, 0, 7, ConsumerRecord)
    )


def columns(side: Any, sample: Sample) -> Callable[[], object]:
    """Add as a consumer does: many batches, then the columns are taken."""
    made = side.RecordColumns()

    def add() -> None:
        made.add(sample.payload, sample.count, 0, NOW_MS, None, 0, BIG)
        if made.bytes > 1 << 23:
            made.take()

    return add


def hashing(side: Any, sample: Sample) -> Callable[[], object]:
    keys = [row.key for row in sample.rows]

    def hash_all() -> None:
        murmur2 = side.murmur2
        for key in keys:
            murmur2(key)

    return hash_all


def partitioning(side: Any, sample: Sample) -> Callable[[], object]:
    taken = sample.columns
    return lambda: side.partition_rows(
        taken.key_offsets, taken.key_data, taken.key_validity, taken.count, 12
    )


def surveying(side: Any, sample: Sample) -> Callable[[], object]:
    return lambda: side.survey_records(sample.payload, sample.count, NOW_MS)


def noting_keys(side: Any, sample: Sample) -> Callable[[], object]:
    offsets = side.KeyOffsets(1 << 20, 0.9)
    return lambda: offsets.put(sample.payload, sample.count, 0)


def keeping(side: Any, sample: Sample) -> Callable[[], object]:
    offsets = side.KeyOffsets(1 << 20, 0.9)
    offsets.put(sample.payload, sample.count, 0)
    offsets.end_offset = sample.count
    return lambda: offsets.keep(sample.payload, sample.count, 0, False)


def copying(side: Any, sample: Sample) -> Callable[[], object]:
    mask = bytes(index % 4 == 0 for index in range(sample.count))
    return lambda: side.copy_records(sample.payload, sample.count, mask, NOW_MS, None)


WORK: dict[str, Callable[[Any, Sample], Callable[[], object]]] = {
    "PayloadWriter.append": appending,
    "PayloadWriter.extend_rows": extending,
    "consumer_records": reading,
    "RecordColumns.add": columns,
    "murmur2": hashing,
    "partition_rows": partitioning,
    "survey_records": surveying,
    "KeyOffsets.put": noting_keys,
    "KeyOffsets.keep": keeping,
    "copy_records, every fourth": copying,
}


def nanoseconds(call: Callable[[], object], count: int, seconds: float) -> float:
    call()
    timer = timeit.Timer(call)
    number = max(1, int(seconds / RUNS / max(timer.timeit(1), 1e-7)))
    return min(timer.repeat(RUNS, number)) / number / count * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=0.5, help="for each figure")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--headers", type=int, default=0)
    options = parser.parse_args()
    sample = Sample(options.value_bytes, options.headers)
    if not engine.NATIVE:
        print("There is no compiled twin here: install a C compiler and run make setup.")
    print(f"{'nanoseconds a record':28}{'compiled':>10}{'Python':>10}{'times':>8}")
    for name, make in WORK.items():
        slow = nanoseconds(make(PURE, sample), sample.count, options.seconds)
        if engine.NATIVE:
            fast = nanoseconds(make(engine, sample), sample.count, options.seconds)
            print(f"{name:28}{fast:10.0f}{slow:10.0f}{slow / fast:8.1f}")
        else:
            print(f"{name:28}{'':10}{slow:10.0f}")


if __name__ == "__main__":
    main()
