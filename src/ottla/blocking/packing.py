"""Serializes, checks and copies records in the thread that sends them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.client.errors import RecordTooLarge
from ottla.client.producer.intake import (
    NO_HEADERS,
    RECORD_OVERHEAD_MAX,
    Headers,
    Pairs,
    header_pairs,
    headers_size,
    plain_bytes,
)
from ottla.client.serializers import HeaderList, serializer_of
from ottla.client.settings.producer import ProducerSettings
from ottla.records.header import HEADER_SIZE


class Parcel(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: Pairs
    size: int
    """An upper bound of its size in a batch."""


class Packer:
    """Serializes records. Errors are raised by `send`, and the record is not taken."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._key = serializer_of(settings.key_serializer, "key_serializer")
        self._value = serializer_of(settings.value_serializer, "value_serializer")
        self._serializes = not (self._key is None and self._value is None)
        self._size_max = min(settings.max_request_size, settings.buffer_memory) - HEADER_SIZE

    def pack(self, topic: str, value: Any, key: Any, headers: Headers | None) -> Parcel:
        if self._serializes:
            pairs: HeaderList = list(header_pairs(headers)) if headers else []
            key = key if self._key is None else self._key(topic, key, pairs)
            value = value if self._value is None else self._value(topic, value, pairs)
            headers = pairs
        size = RECORD_OVERHEAD_MAX
        if value is not None:
            if type(value) is not bytes:
                value = bytes(plain_bytes(value, "value"))
            size += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = bytes(plain_bytes(key, "key"))
            size += len(key)
        own = NO_HEADERS
        if headers:
            own = tuple(header_pairs(headers))
            size += headers_size(own)
        if size > self._size_max:
            self._check(size)
        # This runs for every record, and takes half the time of calling the class.
        return tuple.__new__(Parcel, (value, key, own, size))

    def _check(self, size: int) -> None:
        for name in ("max_request_size", "buffer_memory"):
            limit = getattr(self._settings, name)
            if size + HEADER_SIZE > limit:
                raise RecordTooLarge(size + HEADER_SIZE, name, limit)
