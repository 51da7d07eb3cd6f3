"""Batches written by Apache Kafka 4.3's own Java classes, byte for byte."""

import pytest

from ottla.records.builder import Record, build_batch
from ottla.records.codec import Codec
from ottla.records.control import (
    ControlType,
    EndTxnMarker,
    control_type,
    end_txn_marker,
    read_end_txn_marker,
)
from ottla.records.header import read_header
from ottla.records.reader import check_crc, read_records

TIME = 1_700_000_000_000
RECORDS = [
    Record(100, TIME, b"k0", b"v0"),
    Record(101, TIME + 1, None, None, (("h", b"x"), ("n", None))),
    Record(102, TIME + 5000, b"", b"a" * 300),
    Record(103, TIME - 70, b"\xc3\xa9", b"", (("\u00e9", b""),)),
]
NONE = bytes.fromhex(
    "00000000000000640000018e0000000502992a5d6b0010000000030000018bcfe568000000018bcf"
    "e57b8800000000000010920003000000110000000414000000046b30047630001a00020201010402"
    "680278026e01e80400904e0400d804" + "61" * 300 + "001a008b010604c3a9000204c3a900"
)
GZIP = bytes.fromhex(
    "00000000000000640000007800000005020ea76afa0011000000030000018bcfe568000000018bcf"
    "e57b880000000000001092000300000011000000041f8b08000000000000ff1361606060c9366029"
    "33609062606262646461ca60aa60ca637cc1c230c18f85e1064be228201a00c3b09b918de5f04a06"
    "2610010044101e6c5d010000"
)
SNAPPY = bytes.fromhex(
    "00000000000000640000008c0000000502340505b70012000000030000018bcfe568000000018bcf"
    "e57b8800000000000010920003000000110000000482534e41505059000000000100000001000000"
    "47dd029014000000046b30047630001a00020201010402680278026e01e80400904e0400d8046161"
    "61fe0200fe0200fe0200fe0200a2020038001a008b010604c3a9000204c3a900"
)
LZ4 = bytes.fromhex(
    "00000000000000640000007a00000005025b7d7f140013000000030000018bcfe568000000018bcf"
    "e57b8800000000000010920003000000110000000404224d186040823a000000ff1414000000046b"
    "30047630001a00020201010402680278026e01e80400904e0400d804610100ff19f000001a008b01"
    "0604c3a9000204c3a90000000000"
)
ZSTD = bytes.fromhex(
    "0000000000000064000000770000000502967272ee0014000000030000018bcfe568000000018bcf"
    "e57b8800000000000010920003000000110000000428b52ffd0058d40100240314000000046b3004"
    "7630001a00020201010402680278026e01e80400904e0400d80461001a008b010604c3a9000204c3"
    "a90001004351c113010000"
)
COMMIT = bytes.fromhex(
    "0000000000000009000000420000000602088602a10030000000000000018bcfe568000000018bcf"
    "e5680000000000000010920003ffffffff000000012000000008000000010c00000000000c00"
)
ABORT = bytes.fromhex(
    "0000000000000009000000420000000602fcb8d4e90030000000000000018bcfe568000000018bcf"
    "e5680000000000000010920003ffffffff000000012000000008000000000c00000000000c00"
)
BATCHES = {
    Codec.NONE: NONE,
    Codec.GZIP: GZIP,
    Codec.SNAPPY: SNAPPY,
    Codec.LZ4: LZ4,
    Codec.ZSTD: ZSTD,
}


def ours(codec: Codec) -> bytes:
    return build_batch(
        RECORDS,
        codec=codec,
        partition_leader_epoch=5,
        producer_id=4242,
        producer_epoch=3,
        base_sequence=17,
        transactional=True,
    )


@pytest.mark.parametrize("codec", Codec)
def test_kafkas_batch_is_read(codec: Codec) -> None:
    batch = BATCHES[codec]
    header = read_header(batch)
    check_crc(header, batch)
    assert read_records(batch) == RECORDS
    assert header.size == len(batch)
    assert header.codec is codec
    assert header.partition_leader_epoch == 5
    assert (header.base_offset, header.last_offset, header.record_count) == (100, 103, 4)
    assert (header.base_timestamp, header.max_timestamp) == (TIME, TIME + 5000)
    assert (header.producer_id, header.producer_epoch) == (4242, 3)
    assert (header.base_sequence, header.last_sequence) == (17, 20)
    assert header.is_transactional
    assert not header.is_control


# What deflate and zstd make of the same bytes depends on the version of the library.
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_our_batch_is_kafkas_byte_for_byte(codec: Codec) -> None:
    assert ours(codec) == BATCHES[codec]


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_marker_is_kafkas_byte_for_byte(committed: bool) -> None:
    expected = COMMIT if committed else ABORT
    batch = end_txn_marker(
        committed=committed,
        coordinator_epoch=12,
        producer_id=4242,
        producer_epoch=3,
        timestamp_ms=TIME,
        base_offset=9,
        partition_leader_epoch=6,
    )
    assert batch == expected
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    (record,) = read_records(batch)
    assert control_type(record) is (ControlType.COMMIT if committed else ControlType.ABORT)
    assert read_end_txn_marker(record) == EndTxnMarker(committed, 12)
