"""Frames and headers, as real clients and kio write them."""

from __future__ import annotations

import io
from struct import pack
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_writer
from protocol_samples import joined

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.headers import (
    RequestHeader,
    frame_request,
    frame_response,
    read_request_header,
    read_response_header,
    request_header_bytes,
    response_header_version,
)


@pytest.mark.parametrize(
    ("key", "version", "kio_class"),
    [
        (ApiKey.PRODUCE, 8, KioHeader1),
        (ApiKey.PRODUCE, 9, KioHeader2),
        (ApiKey.SASL_HANDSHAKE, 1, KioHeader1),
        (ApiKey.API_VERSIONS, 2, KioHeader1),
        (ApiKey.API_VERSIONS, 3, KioHeader2),
    ],
)
@pytest.mark.parametrize("client_id", [None, "", "kunde-ä"])
def test_request_headers_are_those_of_kio(
    key: ApiKey, version: int, kio_class: Any, client_id: str | None
) -> None:
    buffer = io.BytesIO()
    theirs = kio_class(
        request_api_key=key, request_api_version=version, correlation_id=7, client_id=client_id
    )
    entity_writer(kio_class)(buffer, theirs)
    data = request_header_bytes(key, version, 7, client_id)
    assert data == buffer.getvalue()
    expected = RequestHeader(key, version, 7, client_id)
    for kind in (bytes, bytearray, memoryview):
        assert read_request_header(kind(b"...." + data), 4) == (expected, 4 + len(data))


def test_a_header_of_an_unknown_api_can_still_be_named() -> None:
    header, _ = read_request_header(pack(">hhih", 4711, 3, 5, -1))
    assert header == RequestHeader(4711, 3, 5, None)


def test_a_newer_version_than_known_has_the_flexible_header() -> None:
    header, position = read_request_header(pack(">hhihB", ApiKey.API_VERSIONS, 99, 5, -1, 0))
    assert header.api_version == 99
    assert position == 11


def test_tagged_fields_of_a_header_are_skipped() -> None:
    data = request_header_bytes(ApiKey.FETCH, 12, 1, "c")[:-1] + b"\x02\x00\x01x\x07\x00"
    assert read_request_header(data)[1] == len(data)


@pytest.mark.parametrize("cut", range(13))
def test_a_header_cut_short_is_malformed(cut: int) -> None:
    data = request_header_bytes(ApiKey.FETCH, 12, 1, "cc")
    assert len(data) == 13
    with pytest.raises(MalformedMessage):
        read_request_header(data[:cut])


def test_a_negative_client_id_length_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="length of -2"):
        read_request_header(pack(">hhih", 1, 4, 5, -2))


def test_answers_to_api_versions_always_have_the_oldest_header() -> None:
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in range(5)] == [
        0
    ] * 5
    assert response_header_version(ApiKey.FETCH, 11) == 0
    assert response_header_version(ApiKey.FETCH, 12) == 1


@pytest.mark.parametrize(
    ("key", "version", "header_size"),
    [(ApiKey.FETCH, 11, 4), (ApiKey.FETCH, 12, 5), (ApiKey.API_VERSIONS, 4, 4)],
)
def test_a_response_frame_has_its_size_and_header(
    key: ApiKey, version: int, header_size: int
) -> None:
    chunks = frame_response(key, version, 99, [b"abc", b"def"])
    data = joined(chunks)
    assert len(chunks) == 2
    assert int.from_bytes(data[:4], "big") == len(data) - 4 == header_size + 6
    assert read_response_header(data, 4, key, version) == (99, 4 + header_size)
    assert data.endswith(b"abcdef")


def test_a_request_frame_has_its_size_and_header() -> None:
    chunks = frame_request(ApiKey.FETCH, 12, 3, "me", [memoryview(b"abc"), b"def"])
    data = joined(chunks)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, position = read_request_header(data, 4)
    assert header == RequestHeader(ApiKey.FETCH, 12, 3, "me")
    assert data[position:] == b"abcdef"


def test_an_overlong_client_id_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 32767 bytes"):
        request_header_bytes(0, 9, 1, "x" * 0x8000)
