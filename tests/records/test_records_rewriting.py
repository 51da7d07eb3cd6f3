"""Batches changed on their way in."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.records.builder import Record, build_batch
from ottla.records.codec import Codec
from ottla.records.crc import crc32c
from ottla.records.errors import InvalidBatch, OpensTooLarge
from ottla.records.header import BatchHeader, read_header
from ottla.records.reader import check_crc, read_records
from ottla.records.validation import (
    ProduceRules,
    check_produced,
    must_open,
    open_produced,
    stamp_log_append_time,
)

NOW = 1_700_000_000_000
RECORDS = [
    Record(0, NOW - 5, b"key", b"value" * 100, (("h", b"x"), ("n", None))),
    Record(1, NOW - 900, None, b"w" * 1000),
    Record(2, NOW + 7, b"k", None),
]


def rewritten(batch: bytes, rules: ProduceRules) -> tuple[BatchHeader, bytes]:
    header = check_produced(memoryview(batch), rules, 12)
    assert must_open(header, batch, rules, NOW)
    result = bytes(open_produced(batch, header, rules, NOW))
    new = read_header(result)
    check_crc(new, result)
    assert new.size == len(result)
    return new, result


PAIRS = [(source, target) for source in Codec for target in Codec if source is not target]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_recompression_changes_the_codec_and_nothing_else(source: Codec, target: Codec) -> None:
    batch = build_batch(
        RECORDS,
        codec=source,
        producer_id=9,
        producer_epoch=2,
        base_sequence=30,
        transactional=True,
    )
    new, result = rewritten(batch, ProduceRules(compression=target))
    old = read_header(batch)
    assert new.codec is target
    assert read_records(result) == RECORDS
    kept = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert new._replace(**kept) == old._replace(**kept)
    assert new.is_transactional


@pytest.mark.parametrize("level", [None, 1, 9])
def test_the_level_of_the_topic_is_used(level: int | None) -> None:
    rules = ProduceRules(compression=Codec.GZIP, compression_level=level)
    _, result = rewritten(build_batch(RECORDS), rules)
    assert result == build_batch(RECORDS, codec=Codec.GZIP, level=level)


def test_recompression_with_log_append_time_stamps_the_batch_too() -> None:
    rules = ProduceRules(compression=Codec.LZ4, timestamp_type="LogAppendTime")
    new, result = rewritten(build_batch(RECORDS), rules)
    assert new.is_log_append_time
    assert new.max_timestamp == NOW
    assert {record.timestamp for record in read_records(result)} == {NOW}


@pytest.mark.parametrize("codec", Codec)
def test_a_maximum_timestamp_below_the_first_is_corrected(codec: Codec) -> None:
    batch = bytearray(build_batch(RECORDS, codec=codec))
    struct.pack_into(">q", batch, 35, -1)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    new, result = rewritten(bytes(batch), ProduceRules())
    assert new.max_timestamp == NOW + 7
    assert result == build_batch(RECORDS, codec=codec)


def test_wrong_offsets_inside_a_batch_are_renumbered() -> None:
    wrong = [
        record._replace(offset=offset) for record, offset in zip(RECORDS, (0, 0, 2), strict=True)
    ]
    _, result = rewritten(build_batch(wrong), ProduceRules(compression=Codec.ZSTD))
    assert read_records(result) == RECORDS


def test_a_batch_that_grows_over_the_limit_is_refused() -> None:
    batch = build_batch([Record(0, NOW, None, bytes(10_000))], codec=Codec.ZSTD)
    rules = ProduceRules(compression=Codec.NONE, max_message_bytes=5000)
    with pytest.raises(InvalidBatch, match=r"max\.message\.bytes is 5000") as caught:
        rewritten(batch, rules)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_the_rules_for_records_hold_in_a_rewrite() -> None:
    rules = ProduceRules(compression=Codec.LZ4, compacted=True, timestamp_before_max_ms=800)
    with pytest.raises(InvalidBatch) as caught:
        rewritten(build_batch(RECORDS), rules)
    assert caught.value.record_errors[0][0] == 1


def test_a_bomb_is_refused_in_a_rewrite() -> None:
    batch = build_batch([Record(0, NOW, None, bytes(3_000_000))], codec=Codec.GZIP)
    rules = ProduceRules(compression=Codec.ZSTD)
    with pytest.raises(OpensTooLarge, match="more than 1000000 bytes uncompressed") as caught:
        open_produced(batch, read_header(batch), rules, NOW, 1_000_000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@given(codec=st.sampled_from(Codec), now=st.integers(min_value=0, max_value=1 << 44))
@settings(deadline=None, max_examples=30)
def test_stamping_sets_the_time_of_every_record_and_keeps_the_rest(codec: Codec, now: int) -> None:
    batch = build_batch(RECORDS, codec=codec, producer_id=1, base_sequence=0, transactional=True)
    stamped = stamp_log_append_time(batch, now)
    header = read_header(stamped)
    check_crc(header, stamped)
    assert header.is_log_append_time
    assert header.is_transactional
    assert header.codec is codec
    expected = [record._replace(timestamp=now) for record in RECORDS]
    assert read_records(stamped) == expected


def test_stamping_is_done_in_place_where_the_buffer_allows_it() -> None:
    tail = b"next request"
    buffer = bytearray(build_batch(RECORDS) + tail)
    stamped = stamp_log_append_time(memoryview(buffer)[: -len(tail)], NOW)
    assert bytes(stamped) + tail == buffer
    read_only = build_batch(RECORDS)
    copy = bytes(read_only)
    stamp_log_append_time(read_only, NOW)
    assert read_only == copy
