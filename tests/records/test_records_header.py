"""The 61 bytes of a batch header."""

import struct

import pytest

from ottla.records.builder import Record, build_batch
from ottla.records.codec import Codec
from ottla.records.errors import InvalidBatch
from ottla.records.header import (
    HEADER_SIZE,
    BatchHeader,
    batches,
    pack_header,
    place_prefix,
    read_header,
    set_base_offset,
    set_leader_epoch,
    set_place,
)
from ottla.records.reader import check_crc


def batch(offset: int = 0, count: int = 1, **options: object) -> bytes:
    records = [Record(offset + i, 1000 + i, None, b"v") for i in range(count)]
    return build_batch(records, **options)  # type: ignore[arg-type]


def header(**fields: int) -> BatchHeader:
    return read_header(batch())._replace(**fields)


def test_every_field_is_read_from_its_place_in_the_documented_layout() -> None:
    laid_out = b"".join(
        (
            struct.pack(">q", 101),
            struct.pack(">i", 49),
            struct.pack(">i", 103),
            struct.pack(">b", 2),
            struct.pack(">I", 0xFEDCBA98),
            struct.pack(">h", 0x7C),
            struct.pack(">i", 106),
            struct.pack(">q", 107),
            struct.pack(">q", 108),
            struct.pack(">q", 109),
            struct.pack(">h", 110),
            struct.pack(">i", 111),
            struct.pack(">i", 112),
        )
    )
    assert len(laid_out) == HEADER_SIZE
    read = read_header(b"junk" + laid_out, 4)
    assert read == (101, 49, 103, 2, 0xFEDCBA98, 0x7C, 106, 107, 108, 109, 110, 111, 112)
    assert read.size == 61
    assert read.last_offset == 207
    assert read.next_offset == 208
    assert read.codec is Codec.ZSTD
    assert read.is_log_append_time
    assert read.is_transactional
    assert read.is_control
    assert read.delete_horizon_ms == 107
    assert pack_header(read) == laid_out


def test_a_plain_batch_has_no_flags() -> None:
    read = read_header(batch())
    assert not read.is_log_append_time
    assert not read.is_transactional
    assert not read.is_control
    assert not read.has_delete_horizon
    assert not read.has_producer_id
    assert read.delete_horizon_ms is None
    assert read.last_sequence == -1


def test_a_short_header_is_corrupt() -> None:
    with pytest.raises(InvalidBatch, match="found 60") as caught:
        read_header(batch()[:60])
    assert caught.value.code.name == "CORRUPT_MESSAGE"


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused_when_asked_for(number: int) -> None:
    with pytest.raises(InvalidBatch, match=f"codec {number} is unknown"):
        _ = header(attributes=number).codec


def test_sequences_wrap_after_the_largest_int32() -> None:
    largest = (1 << 31) - 1
    assert header(base_sequence=largest - 1, last_offset_delta=1).last_sequence == largest
    assert header(base_sequence=largest - 1, last_offset_delta=2).last_sequence == 0
    assert header(base_sequence=largest, last_offset_delta=5).last_sequence == 4


def test_patching_offset_and_epoch_leaves_the_checksum_right() -> None:
    original = batch(count=3)
    patched = bytearray(b"??" + original)
    set_base_offset(patched, 1 << 40, 2)
    set_leader_epoch(patched, 7, 2)
    read = read_header(patched, 2)
    assert (read.base_offset, read.partition_leader_epoch) == (1 << 40, 7)
    check_crc(read, memoryview(patched)[2:])

    placed = bytearray(original)
    set_place(placed, read.batch_length, 1 << 40, 7)
    assert placed == patched[2:]
    assert place_prefix(read.batch_length, 1 << 40, 7) + original[16:] == placed


def test_batches_walks_whole_batches_and_leaves_out_a_cut_tail() -> None:
    first, second = batch(0, 2), batch(2, 5, codec=Codec.GZIP)
    for cut in (1, 30, len(second) - 1):
        found = list(batches(first + second + second[:cut]))
        assert [bytes(view) for _, view in found] == [first, second]
        assert [h.base_offset for h, _ in found] == [0, 2]


def test_batches_stops_at_an_impossible_length() -> None:
    broken = bytearray(batch())
    struct.pack_into(">i", broken, 8, 48)
    with pytest.raises(InvalidBatch, match="batch length 48"):
        list(batches(broken))
