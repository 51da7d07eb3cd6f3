"""Converts between an application's values and the bytes of records.

A serializer setting is None (bytes as they are), a function of one argument, or an object with
`serialize(topic, value, headers)`; a deserializer likewise, with `deserialize(topic, data,
headers)`. A function never gets None: a tombstone stays one. An object gets everything, and may add
headers to the given list when it serializes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.client.errors import BadSetting

HeaderList = list[tuple[str, bytes | None]]
Serialize = Callable[[str, Any, HeaderList], Any]
"""From (topic, value, headers) to bytes or None."""
Deserialize = Callable[[str, Any, Sequence[tuple[str, bytes | None]]], Any]


class Serializer(Protocol):
    def serialize(self, topic: str, value: Any, headers: HeaderList) -> bytes | None: ...


class Deserializer(Protocol):
    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Any: ...


def serializer_of(setting: Any, name: str) -> Serialize | None:
    """Return the function for a serializer setting, which errors call `name`."""
    function = plain_function(setting, "serialize", name)
    if function is None:
        method: Serialize | None = getattr(setting, "serialize", None)
        return method

    def of_value(_topic: str, value: Any, _headers: HeaderList) -> Any:
        return None if value is None else function(value)

    return of_value


def deserializer_of(setting: Any, name: str) -> Deserialize | None:
    function = plain_function(setting, "deserialize", name)
    if function is None:
        method: Deserialize | None = getattr(setting, "deserialize", None)
        return method

    def of_data(_topic: str, data: Any, _headers: Sequence[tuple[str, bytes | None]]) -> Any:
        return None if data is None else function(data)

    return of_data


def plain_function(setting: Any, method: str, name: str) -> Callable[[Any], Any] | None:
    """Return the setting itself if it is a function of one argument: it needs no topic or headers,
    so compiled code may call it. None for None, and for an object with `method`."""
    if setting is None or hasattr(setting, method):
        return None
    if not callable(setting):
        raise BadSetting(
            name, f"{setting!r} is neither a function nor an object with a method {method}"
        )
    function: Callable[[Any], Any] = setting
    return function


class StringSerializer:
    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str | None, headers: HeaderList) -> bytes | None:
        return None if value is None else value.encode(self._encoding)


class StringDeserializer:
    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> str | None:
        return None if data is None else data.decode(self._encoding)


class JsonSerializer:
    """Compact UTF-8. None is a tombstone, not `null`."""

    def __init__(self, default: Callable[[Any], Any] | None = None) -> None:
        """`default` is that of json: it converts values that JSON does not support."""
        self._encode = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), default=default
        ).encode

    def serialize(self, topic: str, value: Any, headers: HeaderList) -> bytes | None:
        return None if value is None else self._encode(value).encode()


class JsonDeserializer:
    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> Any:
        return None if data is None else json.loads(data)
