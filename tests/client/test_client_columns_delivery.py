"""What waits in the buffer of a consumer, taken out as Arrow columns."""

from __future__ import annotations

import pytest

from ottla.client.consumer.delivery import column_delivery
from ottla.client.consumer.delivery.column_delivery import ColumnDelivery
from ottla.client.consumer.fetching.buffer import FetchBuffer
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import UnreadableBatch
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.counters import MetricRegistry
from ottla.records.builder import build_batch
from ottla.records.codec import Codec
from ottla.records.control import end_txn_marker
from ottla.records.record import Record

HERE, THERE = TopicPartition("payments", 0), TopicPartition("payments", 1)


class Reader:
    """A consumer from its buffer on."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.subscriptions = Subscriptions()
        self.subscriptions.assign(partitions)
        for one in partitions:
            self.subscriptions.seek(one, 0)
        self.buffer = FetchBuffer(self.subscriptions, partition_bytes_max=1 << 20)
        self.metrics = MetricRegistry()
        self.delivery = ColumnDelivery(self.buffer, self.subscriptions, self.metrics)

    def add(
        self,
        partition: TopicPartition,
        *batches: bytes,
        aborted: list[tuple[int, int]] | None = None,
    ) -> None:
        self.buffer.add(self.subscriptions.states[partition], b"".join(batches), aborted)

    def offsets(self, limit: int | None = None) -> list[tuple[int, int]] | None:
        found = self.delivery.take(limit, headers=False)
        if found is None:
            return None
        return list(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))


def batch(first: int, count: int, codec: Codec = Codec.NONE, **options: int | bool) -> bytes:
    records = [
        Record(first + number, 1000 + number, b"k", b"v%d" % (first + number), ())
        for number in range(count)
    ]
    return build_batch(records, codec=codec, **options)


def test_all_that_is_there_comes_at_once() -> None:
    reader = Reader(HERE, THERE)
    reader.add(HERE, batch(0, 2), batch(2, 2, Codec.LZ4))
    reader.add(THERE, batch(0, 1))
    assert reader.offsets() == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert reader.offsets() is None
    assert reader.metrics.snapshot()["records-consumed-total"] == 5


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_a_limit_is_kept_to_the_row_and_the_rest_comes_next(codec: Codec) -> None:
    reader = Reader(HERE)
    reader.add(HERE, batch(0, 5, codec), batch(5, 5, codec))
    assert [reader.offsets(3), reader.offsets(3), reader.offsets(3)] == [
        [(0, 0), (0, 1), (0, 2)],
        [(0, 3), (0, 4), (0, 5)],
        [(0, 6), (0, 7), (0, 8)],
    ]
    assert reader.subscriptions.position(HERE) == 9


def test_rows_in_hand_do_not_count_as_consumed_until_more_is_asked_for() -> None:
    reader = Reader(HERE)
    reader.add(HERE, batch(0, 4))
    reader.offsets(3)
    assert reader.subscriptions.consumed()[HERE] == OffsetAndMetadata(0)
    assert reader.subscriptions.position(HERE) == 3
    reader.subscriptions.settle()
    assert reader.subscriptions.consumed()[HERE].offset == 3


def test_reading_begins_at_the_position_within_a_batch() -> None:
    reader = Reader(HERE)
    reader.subscriptions.seek(HERE, 3)
    reader.add(HERE, batch(0, 5))
    assert reader.offsets() == [(0, 3), (0, 4)]


def test_a_seek_drops_what_was_fetched() -> None:
    reader = Reader(HERE)
    reader.add(HERE, batch(0, 5))
    reader.offsets(2)
    reader.subscriptions.seek(HERE, 100)
    assert reader.offsets() is None
    reader.add(HERE, batch(100, 1))
    assert reader.offsets() == [(0, 100)]


def test_a_paused_partition_gives_nothing_until_it_is_resumed() -> None:
    reader = Reader(HERE, THERE)
    reader.add(HERE, batch(0, 2))
    reader.add(THERE, batch(0, 1))
    reader.subscriptions.pause([HERE])
    assert reader.offsets() == [(1, 0)]
    reader.subscriptions.resume([HERE])
    reader.buffer.resume()
    assert reader.offsets() == [(0, 0), (0, 1)]


def test_aborted_transactions_and_markers_are_left_out() -> None:
    reader = Reader(HERE)
    reader.add(
        HERE,
        batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        marker(2, 7, committed=False),
        batch(3, 1, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True),
        marker(4, 8, committed=True),
        aborted=[(0, 7)],
    )
    assert reader.offsets() == [(0, 3)]
    assert reader.offsets() is None
    assert reader.subscriptions.position(HERE) == 5


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


def test_what_comes_before_a_damaged_batch_is_given_first() -> None:
    reader = Reader(HERE)
    good, bad = batch(0, 2), bytearray(batch(2, 2))
    bad[-1] ^= 1
    reader.add(HERE, good, bytes(bad))
    assert reader.offsets() == [(0, 0), (0, 1)]
    with pytest.raises(UnreadableBatch, match="seek to 4 to leave it out"):
        reader.offsets()
    reader.subscriptions.seek(HERE, 4)
    reader.add(HERE, batch(4, 1))
    assert reader.offsets() == [(0, 4)]


def test_broken_records_under_a_right_checksum_are_told_too() -> None:
    reader = Reader(HERE)
    reader.buffer = FetchBuffer(reader.subscriptions, partition_bytes_max=1 << 20, check_crcs=False)
    reader.delivery = ColumnDelivery(reader.buffer, reader.subscriptions, reader.metrics)
    bad = bytearray(batch(0, 2))
    bad[61] = 0x7F
    reader.add(HERE, bytes(bad))
    with pytest.raises(UnreadableBatch, match="damaged"):
        reader.offsets()


def test_a_batch_of_columns_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_delivery, "BYTES_MAX", 10)
    reader = Reader(HERE)
    reader.add(HERE, *(batch(4 * number, 4) for number in range(3)))
    assert reader.offsets() == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert reader.offsets() == [(0, 4), (0, 5), (0, 6), (0, 7)]


def test_the_time_of_the_broker_is_told_as_such() -> None:
    reader = Reader(HERE)
    reader.add(HERE, batch(0, 2, log_append_time=5_000), batch(2, 1))
    found = reader.delivery.take(None, headers=False)
    assert found is not None
    assert found["timestampType"].to_pylist() == [1, 1, 0]
    assert [one.timestamp() for one in found["timestamp"].to_pylist()] == [5.0, 5.0, 1.0]
