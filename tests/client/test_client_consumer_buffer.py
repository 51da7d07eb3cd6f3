"""What of a fetch reaches the application, in which order, and what happens to damaged batches."""

from __future__ import annotations

import pytest

from ottla.client.consumer.delivery.delivery import Delivery
from ottla.client.consumer.delivery.record_decoder import RecordDecoder
from ottla.client.consumer.fetching.buffer import FetchBuffer
from ottla.client.consumer.subscriptions import Subscriptions
from ottla.client.errors import RecordDeserializationError, UnreadableBatch
from ottla.client.serializers import StringDeserializer
from ottla.client.settings.base import settings_from
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.counters import MetricRegistry
from ottla.records.builder import build_batch
from ottla.records.codec import Codec
from ottla.records.control import end_txn_marker
from ottla.records.record import Record

A, B, C = (TopicPartition("t", number) for number in range(3))
LIMIT = 200


def batch(
    base: int,
    *values: bytes,
    producer_id: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
    epoch: int = 4,
) -> bytes:
    return build_batch(
        [Record(base + i, 5, None, value) for i, value in enumerate(values)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=transactional,
        codec=codec,
        partition_leader_epoch=epoch,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=5,
        base_offset=offset,
    )


class Reading:
    """A buffer and the way out of it, with partitions that begin at offset 0."""

    def __init__(self, *partitions: TopicPartition, check_crcs: bool = True, **options: object):
        self.subscriptions = Subscriptions()
        self.subscriptions.assign(partitions)
        for one in partitions:
            self.subscriptions.seek(one, 0)
        self.room_made = 0
        self.buffer = FetchBuffer(
            self.subscriptions,
            partition_bytes_max=LIMIT,
            check_crcs=check_crcs,
            room_made=self._room_made,
        )
        decoder = RecordDecoder(settings_from(ConsumerSettings, options))
        self.delivery = Delivery(self.buffer, self.subscriptions, decoder, MetricRegistry())

    def _room_made(self) -> None:
        self.room_made += 1

    def add(
        self, one: TopicPartition, data: bytes, aborted: list[tuple[int, int]] | None = None
    ) -> None:
        self.buffer.add(self.subscriptions.state(one), data, aborted)

    def poll(self, limit: int = 500) -> dict[TopicPartition, list[bytes]]:
        self.subscriptions.settle()
        found = self.delivery.poll(limit)
        return {one: [record.value for record in records] for one, records in found.items()}

    def position(self, one: TopicPartition = A) -> int | None:
        return self.subscriptions.position(one)


def test_records_before_the_position_are_left_out() -> None:
    reading = Reading(A)
    reading.subscriptions.seek(A, 11)
    reading.add(A, batch(10, b"a", b"b", b"c"))
    assert reading.poll() == {A: [b"b", b"c"]}
    assert reading.position() == 13


def test_the_next_fetch_begins_behind_what_is_buffered() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"a", b"b") + batch(2, b"c"))
    assert reading.subscriptions.state(A).fetched == 3
    assert reading.position() == 0


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"a") + batch(1, b"b")[:-1])
    assert reading.poll() == {A: [b"a"]}
    assert reading.position() == 1


def test_one_cut_off_batch_alone_is_too_large_and_says_what_to_do() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"abcdef")[:-1])
    with pytest.raises(UnreadableBatch, match=r"t-0 at offset 0.*max_partition_fetch_bytes"):
        reading.poll()


def test_a_poll_gives_at_most_its_limit_and_goes_on_inside_the_batch() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"a", b"b", b"c", codec=Codec.LZ4) + batch(3, b"d"))
    assert reading.poll(2) == {A: [b"a", b"b"]}
    assert reading.position() == 2
    assert reading.poll(2) == {A: [b"c", b"d"]}
    assert reading.poll(2) == {}


def test_partitions_take_turns_answer_by_answer() -> None:
    reading = Reading(A, B)
    reading.add(A, batch(0, b"a0", b"a1"))
    reading.add(A, batch(2, b"a2"))
    reading.add(B, batch(0, b"b0"))
    assert reading.poll(3) == {A: [b"a0", b"a1"], B: [b"b0"]}
    assert reading.poll() == {A: [b"a2"]}


def test_holes_of_compaction_are_stepped_over() -> None:
    reading = Reading(A)
    holes = build_batch([Record(3, 5, b"k", b"x"), Record(7, 5, b"k", b"y")])
    reading.add(A, batch(0, b"a") + holes)
    assert reading.poll(2) == {A: [b"a", b"x"]}
    assert reading.position() == 7
    assert reading.poll() == {A: [b"y"]}
    assert reading.position() == 8


def test_control_records_are_passed_over_but_counted() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"a", producer_id=1, transactional=True) + marker(1, 1, committed=True))
    assert reading.poll() == {A: [b"a"]}
    assert reading.poll() == {}
    assert reading.position() == 2


def test_an_aborted_transaction_is_hidden_and_the_next_of_the_same_producer_is_not() -> None:
    reading = Reading(A)
    data = (
        batch(0, b"gone", producer_id=1, transactional=True)
        + batch(1, b"other", producer_id=2, transactional=True)
        + batch(2, b"plain")
        + batch(3, b"gone too", producer_id=1, transactional=True)
        + marker(4, 1, committed=False)
        + batch(5, b"kept", producer_id=1, transactional=True)
        + marker(6, 1, committed=True)
    )
    reading.add(A, data, [(0, 1)])
    assert reading.poll() == {A: [b"other", b"plain", b"kept"]}
    assert reading.poll() == {}
    assert reading.position() == 7


def test_a_part_with_nothing_but_aborted_records_moves_the_position() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"gone", producer_id=1, transactional=True), [(0, 1)])
    assert reading.poll() == {}
    assert reading.position() == 1


def test_a_damaged_batch_is_an_error_at_every_poll_until_a_seek_behind_it() -> None:
    reading = Reading(A)
    damaged = bytearray(batch(1, b"abc", b"def"))
    damaged[-2] ^= 1
    reading.add(A, batch(0, b"fine") + bytes(damaged) + batch(3, b"behind"))
    assert reading.poll() == {A: [b"fine"]}
    for _ in range(3):
        with pytest.raises(
            UnreadableBatch, match=r"t-0 at offset 1: .*checksum.*seek to 3"
        ) as caught:
            reading.poll()
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, 1, 3)
    assert reading.position() == 1
    assert not reading.subscriptions.state(A).is_readable
    reading.subscriptions.seek(A, 3)
    assert reading.subscriptions.state(A).is_readable
    reading.add(A, batch(3, b"behind"))
    assert reading.poll() == {A: [b"behind"]}


def test_without_check_crcs_damage_in_a_value_goes_unseen() -> None:
    reading = Reading(A, check_crcs=False)
    damaged = bytearray(batch(0, b"abc"))
    damaged[-2] ^= 1
    reading.add(A, bytes(damaged))
    assert reading.poll() == {A: [b"abb"]}


def test_the_other_partitions_go_on_beside_a_damaged_one() -> None:
    reading = Reading(A, B, C)
    damaged = bytearray(batch(0, b"abc"))
    damaged[-2] ^= 1
    reading.add(A, bytes(damaged))
    reading.add(B, batch(0, b"b"))
    reading.add(C, batch(0, b"c"))
    assert reading.poll(1) == {B: [b"b"]}
    assert reading.poll(1) == {C: [b"c"]}
    reading.add(B, batch(1, b"b1"))
    with pytest.raises(UnreadableBatch):
        reading.poll()
    assert reading.poll() == {B: [b"b1"]}
    with pytest.raises(UnreadableBatch):
        reading.poll()


def test_an_impossible_length_ends_the_part_with_an_error() -> None:
    reading = Reading(A)
    broken = bytearray(batch(1, b"x"))
    broken[8:12] = (5).to_bytes(4, "big")
    reading.add(A, batch(0, b"a") + bytes(broken))
    assert reading.poll() == {A: [b"a"]}
    assert not reading.subscriptions.state(A).is_readable
    with pytest.raises(UnreadableBatch, match="at offset 1: batch length 5"):
        reading.poll()


def test_records_that_cannot_be_decompressed_are_an_error_with_the_place_behind_them() -> None:
    reading = Reading(A, check_crcs=False)
    data = bytearray(batch(0, *[b"abc" * 50] * 10, codec=Codec.GZIP))
    data[70:90] = bytes(20)
    reading.add(A, bytes(data))
    with pytest.raises(UnreadableBatch) as caught:
        reading.poll()
    assert caught.value.next_offset == 10


def test_the_old_message_format_is_refused_in_words() -> None:
    reading = Reading(A)
    old = bytearray(batch(0, b"x"))
    old[16] = 1
    reading.add(A, bytes(old))
    with pytest.raises(UnreadableBatch, match="format version 1"):
        reading.poll()


def test_a_paused_partition_keeps_what_was_fetched_and_gives_it_later() -> None:
    reading = Reading(A, B)
    reading.add(A, batch(0, b"a"))
    reading.add(B, batch(0, b"b"))
    reading.subscriptions.pause([A])
    assert reading.poll() == {B: [b"b"]}
    assert reading.poll() == {}
    reading.add(A, batch(1, b"a1"))
    assert reading.poll() == {}
    reading.subscriptions.resume([A])
    reading.buffer.resume()
    assert reading.poll(1) == {A: [b"a"]}
    assert reading.poll() == {A: [b"a1"]}


def test_what_is_paused_does_not_keep_others_from_being_fetched() -> None:
    reading = Reading(A, B)
    reading.add(A, batch(0, b"a" * 1000))
    assert reading.buffer.size > 1000
    reading.subscriptions.pause([A])
    assert reading.buffer.size == 0


def test_a_seek_drops_what_was_fetched() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"a", b"b"))
    reading.subscriptions.seek(A, 1)
    assert reading.poll() == {}
    reading.buffer.clear_stale()
    assert not reading.buffer.is_ready
    assert reading.buffer.has_room(reading.subscriptions.state(A))


def test_enough_of_a_partition_is_not_fetched_again_until_it_is_handed_out() -> None:
    reading = Reading(A)
    state = reading.subscriptions.state(A)
    reading.add(A, batch(0, b"a" * LIMIT))
    assert not reading.buffer.has_room(state)
    reading.poll()
    assert reading.buffer.has_room(state)
    assert reading.room_made


def test_after_an_error_of_the_broker_what_is_there_is_handed_out_first() -> None:
    reading = Reading(A)
    state = reading.subscriptions.state(A)
    assert not reading.buffer.hold_back(state)
    reading.add(A, batch(0, b"a"))
    assert reading.buffer.hold_back(state)
    assert not reading.buffer.has_room(state)
    assert reading.poll() == {A: [b"a"]}
    assert reading.buffer.has_room(state)


def test_whole_batches_can_be_taken_without_opening_them() -> None:
    reading = Reading(A, B)
    reading.add(A, batch(0, b"a") + batch(1, b"b"))
    reading.add(B, batch(0, b"c"))
    reading.subscriptions.seek(B, 0)
    reading.add(B, batch(0, b"c"))
    taken = reading.buffer.take_batches(1)
    assert [(one.partition, one.header.base_offset) for one in taken] == [(A, 0)]
    taken = reading.buffer.take_batches(1 << 20)
    assert [(one.partition, one.header.base_offset) for one in taken] == [(A, 1), (B, 0)]
    assert reading.position(A) == 2
    assert reading.buffer.take_batches(1) == []


def shout(data: bytes) -> str:
    text = data.decode()
    if text == "bad":
        raise ValueError("not today")
    return text.upper()


@pytest.mark.parametrize("form", ["function", "object"])
def test_a_record_that_cannot_be_deserialized_stays_next_until_a_seek(form: str) -> None:
    class Shouting:
        def deserialize(self, topic: str, data: bytes | None, headers: object) -> str:
            assert topic == "t"
            return shout(data or b"")

    reading = Reading(A, value_deserializer=shout if form == "function" else Shouting())
    reading.add(A, batch(0, b"a", b"b", b"bad", b"d"))
    assert reading.poll() == {A: ["A", "B"]}
    assert reading.position() == 2
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="not today") as caught:
            reading.poll()
    error = caught.value
    assert (error.offset, error.next_offset, error.part) == (2, 3, "value")
    assert (error.key, error.value) == (None, b"bad")
    reading.subscriptions.seek(A, error.next_offset or 0)
    reading.add(A, batch(0, b"a", b"b", b"bad", b"d"))
    assert reading.poll() == {A: ["D"]}


def test_keys_and_values_are_deserialized_and_null_stays_none() -> None:
    reading = Reading(A, key_deserializer=StringDeserializer(), value_deserializer=shout)
    reading.add(A, build_batch([Record(0, 5, b"k", b"v"), Record(1, 5, None, None)]))
    found = reading.delivery.poll(10)[A]
    assert [(record.key, record.value) for record in found] == [("k", "V"), (None, None)]


def test_records_carry_epoch_and_kind_of_their_timestamp() -> None:
    reading = Reading(A)
    reading.add(A, batch(0, b"a", epoch=9))
    record = reading.delivery.poll(1)[A][0]
    assert (record.timestamp, record.timestamp_type, record.leader_epoch) == (5, 0, 9)
    assert reading.subscriptions.positions()[A].leader_epoch == 9


def test_stepping_over_a_batch_that_nobody_sees_takes_its_epoch() -> None:
    """Else the position would claim an epoch that ended before it, as if records were lost."""
    reading = Reading(A)
    hidden = batch(1, b"x", producer_id=7, transactional=True, epoch=6)
    reading.add(A, batch(0, b"a", epoch=4) + hidden, aborted=[(1, 7)])
    reading.delivery.poll(10)
    assert reading.delivery.poll(10) == {}
    state = reading.subscriptions.state(A)
    assert (state.position, state.offset_epoch) == (2, 6)
