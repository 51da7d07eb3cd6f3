"""The verdict on what a producer sent: Kafka's codes, in Kafka's order."""

import struct
import tracemalloc

import pytest
from test_records_twins import needs_native

from ottla.protocol.errors import ErrorCode
from ottla.records.builder import Record, build_batch, seal
from ottla.records.codec import Codec
from ottla.records.compression import compress
from ottla.records.crc import crc32c
from ottla.records.engine import NATIVE
from ottla.records.errors import InvalidBatch, OpensTooLarge
from ottla.records.header import HEADER_SIZE, BatchHeader, read_header
from ottla.records.payload import encode_records
from ottla.records.reader import check_crc, read_records
from ottla.records.record_checks import RECORD_ERRORS_MAX
from ottla.records.validation import (
    ProduceRules,
    check_produced,
    must_open,
    needs_rewrite,
    open_produced,
)

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
RECORDS = [Record(i, NOW - 100 + i, b"key", b"value") for i in range(3)]


def accepted(
    batch: bytes | bytearray, rules: ProduceRules | None = None, version: int = 12
) -> bytes:
    """The batch as it would be stored."""
    rules, view = rules or ProduceRules(), memoryview(batch)
    header = check_produced(view, rules, version)
    view = view[: header.size]
    if must_open(header, view, rules, NOW):
        return bytes(open_produced(view, header, rules, NOW))
    return bytes(view)


def verdict(
    batch: bytes | bytearray, rules: ProduceRules | None = None, version: int = 12
) -> ErrorCode:
    try:
        accepted(batch, rules, version)
    except InvalidBatch as refused:
        return refused.code
    return ErrorCode.NONE


def changed(layout: str, position: int, value: int, *, seal: bool = True) -> bytearray:
    batch = bytearray(build_batch(RECORDS))
    struct.pack_into(layout, batch, position, value)
    if seal:
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "producer",
    [
        {},
        {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 1, "base_sequence": 9, "transactional": True},
    ],
)
def test_a_good_batch_is_accepted_with_its_header(codec: Codec, producer: dict[str, int]) -> None:
    batch = build_batch(RECORDS, codec=codec, **producer)  # type: ignore[arg-type]
    header = check_produced(memoryview(batch), ProduceRules(), 12)
    assert type(header) is BatchHeader
    assert header == read_header(batch)
    assert accepted(batch) == batch


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(b"", "INVALID_RECORD", id="nothing"),
        pytest.param(build_batch(RECORDS)[:11], "INVALID_RECORD", id="less than a length field"),
        pytest.param(build_batch(RECORDS)[:60], "INVALID_RECORD", id="less than a header"),
        pytest.param(build_batch(RECORDS)[:-1], "INVALID_RECORD", id="one byte missing"),
        pytest.param(build_batch(RECORDS) * 2, "INVALID_RECORD", id="two batches"),
        pytest.param(build_batch(RECORDS) + bytes(12), "CORRUPT_MESSAGE", id="zeros behind"),
        pytest.param(changed(">i", 8, 13), "CORRUPT_MESSAGE", id="length 13"),
        pytest.param(changed(">i", 8, -1), "CORRUPT_MESSAGE", id="length -1"),
        pytest.param(changed(">i", 8, 48)[:60], "CORRUPT_MESSAGE", id="length 48, a short batch"),
        pytest.param(changed(">i", 8, (1 << 31) - 1), "INVALID_RECORD", id="length 2^31-1"),
        pytest.param(changed(">b", 16, 0), "INVALID_RECORD", id="magic 0"),
        pytest.param(changed(">b", 16, 1), "INVALID_RECORD", id="magic 1"),
        pytest.param(changed(">b", 16, 3), "CORRUPT_MESSAGE", id="magic 3"),
        pytest.param(changed(">b", 16, -1), "CORRUPT_MESSAGE", id="magic -1"),
        pytest.param(changed(">q", 0, 1), "INVALID_RECORD", id="base offset 1"),
        pytest.param(changed(">q", 0, -1), "INVALID_RECORD", id="base offset -1"),
        pytest.param(changed(">I", 17, 1, seal=False), "CORRUPT_MESSAGE", id="wrong checksum"),
        pytest.param(changed(">h", 21, 5), "UNSUPPORTED_COMPRESSION_TYPE", id="codec 5"),
        pytest.param(changed(">h", 21, 7), "UNSUPPORTED_COMPRESSION_TYPE", id="codec 7"),
        pytest.param(changed(">h", 21, 0x20), "INVALID_RECORD", id="control batch"),
        pytest.param(changed(">h", 21, 0x08), "INVALID_TIMESTAMP", id="log append time"),
        pytest.param(changed(">h", 21, 0x10), "INVALID_RECORD", id="transaction of nobody"),
        pytest.param(changed(">i", 23, 1), "INVALID_RECORD", id="last offset delta too small"),
        pytest.param(changed(">i", 23, 3), "INVALID_RECORD", id="last offset delta too large"),
        pytest.param(changed(">i", 23, -1), "INVALID_RECORD", id="last offset delta -1"),
        pytest.param(changed(">q", 43, 5), "INVALID_RECORD", id="producer id without sequence"),
        pytest.param(changed(">i", 57, 0), "INVALID_RECORD", id="no records"),
        pytest.param(changed(">i", 57, -3), "INVALID_RECORD", id="record count -3"),
        pytest.param(changed(">i", 57, 4), "INVALID_RECORD", id="record count too large"),
    ],
)
def test_a_bad_batch_is_refused_with_kafkas_code(batch: bytes, expected: str) -> None:
    assert verdict(batch).name == expected


def test_bytes_that_begin_no_whole_batch_are_ignored_behind_the_first() -> None:
    batch = build_batch(RECORDS)
    for tail in (b"\x00" * 11, batch[:-1], batch[:30]):
        assert accepted(batch + tail) == batch


def test_zstd_needs_produce_version_7() -> None:
    batch = build_batch(RECORDS, codec=Codec.ZSTD)
    assert verdict(batch, version=6).name == "UNSUPPORTED_COMPRESSION_TYPE"
    assert verdict(batch, version=7) is ErrorCode.NONE


def test_the_largest_allowed_batch_is_accepted_and_the_next_refused() -> None:
    batch = build_batch(RECORDS)
    assert verdict(batch, ProduceRules(max_message_bytes=len(batch))) is ErrorCode.NONE
    refusal = verdict(batch, ProduceRules(max_message_bytes=len(batch) - 1))
    assert refusal is ErrorCode.MESSAGE_TOO_LARGE


def refusal(records: list[Record], rules: ProduceRules, codec: Codec = Codec.NONE) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        accepted(build_batch(records, codec=codec), rules)
    return caught.value


@pytest.mark.parametrize("codec", Codec)
def test_records_too_far_in_the_future_are_named(codec: Codec) -> None:
    records = [
        Record(0, NOW + HOUR_MS, None, b"at the limit"),
        Record(1, NOW + HOUR_MS + 1, None, b"over it"),
        Record(2, NOW, None, b"fine"),
    ]
    refused = refusal(records, ProduceRules(timestamp_after_max_ms=HOUR_MS), codec)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]
    assert str(NOW + HOUR_MS + 1) in refused.record_errors[0][1]
    assert verdict(build_batch(records[:1], codec=codec)) is ErrorCode.NONE


@pytest.mark.parametrize("codec", Codec)
def test_records_too_old_are_named(codec: Codec) -> None:
    records = [
        Record(0, NOW, None, b"fine"),
        Record(1, NOW - 501, None, b"too old"),
        Record(2, NOW - 500, None, b"at the limit"),
        Record(3, -1, None, b"no timestamp"),
    ]
    rules = ProduceRules(timestamp_before_max_ms=500)
    refused = refusal(records, rules, codec)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]
    assert verdict(build_batch(records), ProduceRules()) is ErrorCode.NONE


def test_timestamps_do_not_matter_where_the_broker_sets_them() -> None:
    rules = ProduceRules(
        timestamp_type="LogAppendTime", timestamp_before_max_ms=1, timestamp_after_max_ms=1
    )
    for timestamp in (0, NOW + 10 * HOUR_MS):
        assert verdict(build_batch([Record(0, timestamp, None, b"")]), rules) is ErrorCode.NONE


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_wants_keys(codec: Codec) -> None:
    records = [Record(i, NOW, None if i in (1, 3) else b"", b"v") for i in range(4)]
    refused = refusal(records, ProduceRules(compacted=True), codec)
    assert refused.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.record_errors] == [1, 3]
    with_keys = build_batch(records[:1], codec=codec)
    assert verdict(with_keys, ProduceRules(compacted=True)) is ErrorCode.NONE


def test_one_bad_timestamp_decides_the_code_beside_missing_keys() -> None:
    records = [Record(0, NOW, None, b""), Record(1, NOW + 2, b"k", b"")]
    refused = refusal(records, ProduceRules(compacted=True, timestamp_after_max_ms=1))
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1]


def test_the_list_of_bad_records_is_bounded() -> None:
    records = [Record(i, NOW, None, b"") for i in range(RECORD_ERRORS_MAX + 5)]
    refused = refusal(records, ProduceRules(compacted=True))
    assert len(refused.record_errors) == RECORD_ERRORS_MAX


def with_records(payload: bytes, codec: Codec = Codec.NONE, **changes: int) -> bytes:
    header = read_header(build_batch(RECORDS, codec=codec))._replace(**changes)
    return seal(header, compress(codec, payload) if codec else payload)


OPENING = ProduceRules(compacted=True)
CUT_RECORD = encode_records(RECORDS, 0, RECORDS[0].timestamp)[:-1] + b"\1"


@pytest.mark.parametrize("codec", Codec)
def test_damaged_records_are_found_where_records_are_read(codec: Codec) -> None:
    assert verdict(with_records(CUT_RECORD, codec), OPENING) is ErrorCode.INVALID_RECORD


@needs_native
def test_damaged_records_are_found_by_compiled_code_wherever_they_are_not_compressed() -> None:
    assert verdict(with_records(CUT_RECORD)) is ErrorCode.INVALID_RECORD
    assert verdict(with_records(CUT_RECORD, Codec.LZ4)) is ErrorCode.NONE


def misnumbered(codec: Codec) -> bytes:
    records = [Record(0, NOW, b"k", b""), Record(2, NOW, b"k", b"")]
    return build_batch(records, last_offset=1, codec=codec)


@pytest.mark.parametrize("codec", Codec)
def test_offsets_that_do_not_count_up_are_put_right_where_records_are_read(codec: Codec) -> None:
    stored = accepted(misnumbered(codec), OPENING)
    check_crc(read_header(stored), stored)
    assert [record.offset for record in read_records(stored)] == [0, 1]
    assert read_header(stored).codec is codec


@needs_native
def test_offsets_that_do_not_count_up_are_put_right_by_compiled_code() -> None:
    stored = accepted(misnumbered(Codec.NONE))
    assert [record.offset for record in read_records(stored)] == [0, 1]


@pytest.mark.parametrize("claimed", [NOW + 2 * HOUR_MS, NOW - 50, -1])
@pytest.mark.parametrize("codec", Codec)
def test_a_highest_timestamp_that_the_records_do_not_bear_out_is_put_right(
    codec: Codec, claimed: int
) -> None:
    """As far as it is found out: always if it is too high or too low to be true, and wherever
    records are read."""
    header = read_header(build_batch(RECORDS, codec=codec))._replace(max_timestamp=claimed)
    batch = seal(header, build_batch(RECORDS, codec=codec)[HEADER_SIZE:])
    sound = build_batch(RECORDS, codec=codec)
    assert accepted(batch, OPENING) == sound
    if claimed != NOW - 50 or (NATIVE and codec is Codec.NONE):
        assert accepted(batch) == sound


@needs_native
def test_a_future_that_the_header_hides_is_found_by_compiled_code() -> None:
    records = [Record(0, NOW, None, b""), Record(1, NOW + 2 * HOUR_MS, None, b"")]
    batch = build_batch(records)
    hidden = seal(read_header(batch)._replace(max_timestamp=NOW), batch[HEADER_SIZE:])
    assert verdict(hidden) is ErrorCode.INVALID_TIMESTAMP


@needs_native
def test_uncompressed_records_that_obey_need_no_opening_whatever_the_rules() -> None:
    batch = build_batch(RECORDS)
    for rules in (OPENING, ProduceRules(timestamp_before_max_ms=1000), ProduceRules()):
        assert not must_open(read_header(batch), batch, rules, NOW)
    assert must_open(read_header(batch), batch, ProduceRules(compression=Codec.LZ4), NOW)
    packed = build_batch(RECORDS, codec=Codec.LZ4)
    assert must_open(read_header(packed), packed, OPENING, NOW)
    assert not must_open(read_header(packed), packed, ProduceRules(), NOW)


def test_a_bomb_is_refused_where_records_are_read() -> None:
    batch = build_batch([Record(0, NOW, b"k", bytes(5_000_000))], codec=Codec.ZSTD)
    assert len(batch) < 1000
    with pytest.raises(OpensTooLarge):
        open_produced(batch, read_header(batch), ProduceRules(compacted=True), NOW, 1_000_000)


@pytest.mark.parametrize("key", [b"\0", b"\1"], ids=["to be renumbered", "without keys"])
def test_many_tiny_records_in_a_small_batch_do_not_fill_the_memory(key: bytes) -> None:
    count = 200_000
    payload = (b"\x0c\0\0\0" + key + b"\1\0") * count
    header = read_header(build_batch(RECORDS, codec=Codec.ZSTD))
    batch = seal(
        header._replace(last_offset_delta=count - 1, record_count=count),
        compress(Codec.ZSTD, payload),
    )
    assert len(batch) < 1000
    tracemalloc.start()
    try:
        expected = ErrorCode.NONE if key == b"\0" else ErrorCode.INVALID_RECORD
        assert verdict(batch, ProduceRules(compacted=True)) is expected
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * len(payload), "as objects the records take more"


def test_only_another_codec_or_an_impossible_maximum_timestamp_needs_a_rewrite() -> None:
    plain = read_header(build_batch(RECORDS))
    packed = read_header(build_batch(RECORDS, codec=Codec.LZ4))
    control = read_header(build_batch(RECORDS, control=True))
    assert not needs_rewrite(plain, ProduceRules())
    assert not needs_rewrite(packed, ProduceRules())
    assert not needs_rewrite(packed, ProduceRules(compression=Codec.LZ4))
    assert not needs_rewrite(plain, ProduceRules(timestamp_type="LogAppendTime"))
    assert not needs_rewrite(control, ProduceRules(compression=Codec.LZ4))
    assert needs_rewrite(plain, ProduceRules(compression=Codec.LZ4))
    assert needs_rewrite(packed, ProduceRules(compression=Codec.NONE))
    assert needs_rewrite(plain._replace(max_timestamp=-1), ProduceRules())


def test_more_records_than_the_bytes_could_hold_are_refused() -> None:
    batch = changed(">i", 57, 1_000_000, seal=False)
    struct.pack_into(">i", batch, 23, 999_999)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    assert verdict(batch) is ErrorCode.INVALID_RECORD
