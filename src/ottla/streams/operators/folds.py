"""Folds records into an aggregate: by a Python function, or by keeping them all.

A fold has its aggregate in a form of its own while it works (`start`, `add`, `merge`) and writes it
as text for the state (`dumps`). If the aggregate is None, the key is forgotten.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ottla.streams.operators.packing import NOTHING, Codec
from ottla.streams.operators.records import Record


class Fold(ABC):
    @abstractmethod
    def start(self, record: Record) -> Any:
        """Return the aggregate of one record."""

    @abstractmethod
    def add(self, aggregate: Any, record: Record) -> Any: ...

    @abstractmethod
    def merge(self, key: str, first: Any, second: Any) -> Any:
        """Merge the aggregates of two sessions into one."""

    @abstractmethod
    def dumps(self, aggregate: Any) -> str: ...

    @abstractmethod
    def loads(self, text: str) -> Any: ...


class Reducing(Fold):
    """`function(old, new)`, of the records' own type; the first value is the first aggregate."""

    def __init__(self, function: Callable[[Any, Any], Any], value: Codec) -> None:
        self._function = function
        self._value = value

    def start(self, record: Record) -> Any:
        return _loaded(self._value, record.value)

    def add(self, aggregate: Any, record: Record) -> Any:
        value = self.start(record)
        return value if aggregate is None else self._function(aggregate, value)

    def merge(self, key: str, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return second if first is None else first
        return self._function(first, second)

    def dumps(self, aggregate: Any) -> str:
        return self._value.dumps(aggregate)

    def loads(self, text: str) -> Any:
        return _loaded(self._value, text)


class Aggregating(Fold):
    """`function(key, value, aggregate)`, as Kafka Streams' Aggregator; begins with `initial()`."""

    def __init__(
        self,
        initial: Callable[[], Any],
        function: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None,
        key_of: Callable[[str], Any],
        value: Codec,
        aggregate: Codec,
    ) -> None:
        self._initial = initial
        self._function = function
        self._merger = merger
        self._key_of = key_of
        self._value = value
        self._aggregate = aggregate

    def start(self, record: Record) -> Any:
        return self.add(None, record)

    def add(self, aggregate: Any, record: Record) -> Any:
        before = self._initial() if aggregate is None else aggregate
        key, value = self._key_of(record.key), _loaded(self._value, record.value)
        return self._function(key, value, before)

    def merge(self, key: str, first: Any, second: Any) -> Any:
        if self._merger is None:
            raise ValueError(
                "sessions that meet are merged: aggregate() of sessions needs a merger"
            )
        return self._merger(self._key_of(key), first, second)

    def dumps(self, aggregate: Any) -> str:
        return self._aggregate.dumps(aggregate)

    def loads(self, text: str) -> Any:
        return _loaded(self._aggregate, text)


class Collecting(Fold):
    """Keeps all records, as the text of an array, without parsing them.

    Spark's own aggregates can then run over them.
    """

    _END = "]}"

    def start(self, record: Record) -> str:
        return '{"v":[' + self._element(record) + self._END

    def add(self, aggregate: str, record: Record) -> str:
        return f"{aggregate[:-2]},{self._element(record)}{self._END}"

    def merge(self, key: str, first: str, second: str) -> str:
        return f"{first[:-2]},{second[6:]}"

    def dumps(self, aggregate: str) -> str:
        return aggregate

    def loads(self, text: str) -> str:
        return text

    def _element(self, record: Record) -> str:
        value = record.value[5:-1] if record.value != NOTHING else "null"
        return f'{{"value":{value},"timestamp":{record.time}}}'


def _loaded(codec: Codec, text: str) -> Any:
    return None if text == NOTHING else codec.loads(text)
