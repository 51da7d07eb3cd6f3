"""Bytes from strangers: the answer is a message or `MalformedMessage`, never anything else."""

from __future__ import annotations

import tracemalloc
from random import Random
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_samples import (
    RECORD_PACKAGES,
    joined,
    message_classes,
    random_struct,
    versions_of,
)

from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode, KafkaError, MalformedMessage, TooManyElements
from ottla.protocol.headers import read_request_header, read_response_header
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import Message
from ottla.protocol.wire import skip_tags, uvarint, write_uvarint

ALL = list(message_classes("messages", *RECORD_PACKAGES))
MUTATIONS = 10


def decode_or_refuse(cls: type[Message], version: int, data: bytes) -> Message | None:
    try:
        message, end = decoder(cls, version)(data, 0)
    except MalformedMessage:
        return None
    assert 0 <= end <= len(data)
    return message


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_noise_and_damage_raise_nothing_but_malformed(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        data = joined(encoder(cls, version)(random_struct(cls, version, random)))
        for _ in range(MUTATIONS):
            damaged = bytearray(data)
            for _ in range(random.randint(1, 3)):
                if damaged:
                    damaged[random.randrange(len(damaged))] = random.choice((0, 1, 127, 128, 255))
            decode_or_refuse(cls, version, bytes(damaged))
            decode_or_refuse(cls, version, random.randbytes(random.randint(0, 60)))


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_a_message_cut_short_is_malformed(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        data = joined(encoder(cls, version)(random_struct(cls, version, random)))
        cuts = random.sample(range(len(data)), min(MUTATIONS, len(data)))
        for cut in cuts:
            with pytest.raises(MalformedMessage):
                decoder(cls, version)(data[:cut], 0)


@given(st.binary(max_size=200), st.sampled_from([0, 1, 3, 18, 77, -1, 99]))
def test_headers_of_noise_raise_nothing_but_malformed(data: bytes, key: int) -> None:
    for noise in (data, pack(">hh", key, 12) + data):
        try:
            _, position = read_request_header(noise)
            assert position <= len(noise)
        except MalformedMessage:
            pass
    try:
        read_response_header(data, 0, key, 12)
    except MalformedMessage:
        pass


@pytest.mark.parametrize("version", [4, 12])
def test_a_huge_array_count_is_refused_before_memory_is_taken(version: int) -> None:
    flexible = version >= MetadataRequest.FLEXIBLE  # type: ignore[operator]
    count = write_uvarint(0x7FFF_FFFF) if flexible else pack(">i", 0x7FFF_FFFF)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="topics: more elements than bytes"):
            decoder(MetadataRequest, version)(count + bytes(50), 0)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_a_count_is_measured_against_the_smallest_element() -> None:
    # 30 partitions of a fetch take at least 29 bytes each; 60 bytes cannot hold them.
    head = pack(">iiiibiiB", -1, 500, 1, 1 << 20, 0, 0, -1, 2) + b"\x02t" + bytes([31])
    with pytest.raises(MalformedMessage, match="partitions: more elements than bytes"):
        decoder(FetchRequest, 12)(head + bytes(60), 0)


@pytest.mark.parametrize("length", [-2, -32768])
def test_a_negative_length_other_than_null_is_malformed(length: int) -> None:
    with pytest.raises(MalformedMessage, match="transactional_id"):
        decoder(ProduceRequest, 3)(pack(">hhii", length, 1, 1, 0), 0)


def test_null_where_none_may_be_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="topic_data"):
        decoder(ProduceRequest, 3)(pack(">hhii", -1, 1, 1, -1), 0)
    with pytest.raises(MalformedMessage, match="topic_data"):
        decoder(ProduceRequest, 9)(pack(">BhiBB", 0, 1, 1, 0, 0), 0)


def test_bad_utf8_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="utf-8"):
        decoder(ProduceRequest, 3)(pack(">h2shii", 2, b"\xc3\x28", 1, 1, 0), 0)


def test_a_string_longer_than_the_classic_form_allows_is_malformed() -> None:
    data = write_uvarint(0x7FFF + 2) + b"a" * 0x8000 + pack(">hiBB", 1, 1, 1, 0)
    with pytest.raises(MalformedMessage, match="32768 bytes"):
        decoder(ProduceRequest, 9)(data, 0)


@pytest.mark.parametrize("data", [b"\xff" * 5, b"\xff\xff\xff\xff\x08", b"\x80" * 6])
def test_a_varint_beyond_31_bits_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage, match="varint"):
        uvarint(data + bytes(4), 0)


@given(st.integers(0, 0x7FFF_FFFF))
def test_a_varint_survives_the_round_trip(value: int) -> None:
    data = write_uvarint(value)
    assert uvarint(b"x" + data + b"y", 1) == (value, len(data) + 1)


def test_a_tagged_field_of_another_size_than_it_says_is_malformed() -> None:
    data = joined(encoder(FetchRequest, 12)(FetchRequest(cluster_id="abc")))
    assert data.endswith(b"\x01\x00\x04\x04abc")
    with pytest.raises(MalformedMessage, match="cluster_id"):
        decoder(FetchRequest, 12)(data[:-7] + b"\x01\x00\x05\x04abcd", 0)


def test_a_request_with_absurdly_many_elements_is_refused_before_they_are_read() -> None:
    count = 1_000_000
    body = write_uvarint(count + 1) + b"\x01\x00" * count + bytes(4)
    with pytest.raises(MalformedMessage, match="elements in all"):
        decoder(MetadataRequest, 9)(body, 0)


def test_elements_beyond_what_the_caller_allows_are_refused_before_they_are_decoded() -> None:
    data = pack(">i", 3) + b"\0\1a" * 3
    decode = decoder(MetadataRequest, 1)
    assert len(decode(data, 0, 3)[0].topics) == 3
    with pytest.raises(TooManyElements):
        decode(data, 0, 2)


def test_plain_numbers_count_as_elements() -> None:
    topic = pack(">ih", 1, 1) + b"t" + pack(">i", 1000) + bytes(4000)
    with pytest.raises(TooManyElements):
        decoder(DescribeLogDirsRequest, 1)(topic, 0, 1000)


def test_tagged_fields_are_bounded() -> None:
    with pytest.raises(MalformedMessage):
        skip_tags(write_uvarint(101) + b"\1\0" * 101, 0)
    assert skip_tags(write_uvarint(100) + b"\1\0" * 100, 0) == 201


def test_the_message_of_an_error_fits_an_answer() -> None:
    assert len(KafkaError(ErrorCode.INVALID_REQUEST, "x" * 1_000_000).message) == 2_000
