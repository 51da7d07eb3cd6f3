"""The stores of a processor: their declarations, and the objects a processor uses.

A store belongs to a bucket of keys, as one of Kafka Streams belongs to a partition. The changes of
a record are kept apart until its processing has succeeded, and those of a batch are written
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql.types import ArrayType, DataType

from ottla.streams.operators.operator import State
from ottla.streams.operators.packing import NOTHING, Codec
from ottla.streams.operators.state import KeyedState


@dataclass(frozen=True)
class KeyValues:
    """A store with any keys. Entries not written for `ttl_ms` expire (needs wall-clock time)."""

    name: str
    key: DataType
    value: DataType
    ttl_ms: int | None = None


@dataclass(frozen=True)
class Value:
    """A store with one value for each key of the records."""

    name: str
    value: DataType
    ttl_ms: int | None = None


@dataclass(frozen=True)
class Values:
    """A store with a list of values for each key of the records."""

    name: str
    value: DataType
    ttl_ms: int | None = None


Declaration: TypeAlias = KeyValues | Value | Values


class Entries:
    """A bucket's map of texts: read ahead, changed in memory, written at the end."""

    def __init__(self, state: KeyedState) -> None:
        self._state = state
        self._before: dict[str, str] = {}
        self._done: dict[str, str] = {}
        self._trying: dict[str, str] = {}

    def open(self, keys: Sequence[str]) -> None:
        """Begin another bucket, whose records have these keys."""
        self._before = {key: _text(found) for key, found in self._state.read(keys).items()}
        self._done, self._trying = {}, {}

    def get(self, key: str) -> str:
        for known in (self._trying, self._done, self._before):
            if key in known:
                return known[key]
        self._before[key] = _text(self._state.read([key])[key])
        return self._before[key]

    def put(self, key: str, text: str) -> None:
        self._trying[key] = text

    def all(self) -> dict[str, str]:
        stored = {key: state.value for key, state in self._state.items()}
        merged = stored | self._done | self._trying
        return {key: text for key, text in merged.items() if text != NOTHING}

    def keep(self) -> None:
        self._done |= self._trying
        self._trying = {}

    def undo(self) -> None:
        self._trying = {}

    def write(self) -> None:
        self._state.write(
            [(key, State(text, 0) if text != NOTHING else None) for key, text in self._done.items()]
        )


def _text(state: State | None) -> str:
    return NOTHING if state is None else state.value


class KeyValueStore:
    """`get`, `put`, `delete`, and `all` or `range`, which read the whole bucket."""

    def __init__(self, declared: KeyValues, entries: Entries) -> None:
        self._name = declared.name
        self._key = Codec(declared.key, f"a key of {declared.name}")
        self._value = Codec(declared.value, f"a value of {declared.name}")
        self._entries = entries

    def get(self, key: Any) -> Any:
        text = self._entries.get(self._packed(key))
        return None if text == NOTHING else self._value.loads(text)

    def put(self, key: Any, value: Any) -> None:
        """Store a value; None deletes."""
        self._entries.put(self._packed(key), self._value.dumps(value))

    def delete(self, key: Any) -> Any:
        """Delete the value of a key and return it."""
        before = self.get(key)
        self._entries.put(self._packed(key), NOTHING)
        return before

    def _packed(self, key: Any) -> str:
        if key is None:
            raise ValueError(f"{self._name} has no place for the key None")
        return self._key.dumps(key)

    def all(self) -> Iterator[tuple[Any, Any]]:
        for key, text in self._entries.all().items():
            yield self._key.loads(key), self._value.loads(text)

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the keys from `first` to `last`, both included, in order."""
        found = ((key, value) for key, value in self.all() if first <= key <= last)
        return iter(sorted(found, key=lambda entry: entry[0]))


class ValueStore:
    def __init__(self, declared: Value, entries: Entries, current: Callable[[], str]) -> None:
        self._value = Codec(declared.value, f"the value of {declared.name}")
        self._entries = entries
        self._current = current

    def get(self) -> Any:
        text = self._entries.get(self._current())
        return None if text == NOTHING else self._value.loads(text)

    def put(self, value: Any) -> None:
        self._entries.put(self._current(), self._value.dumps(value))

    def delete(self) -> None:
        self._entries.put(self._current(), NOTHING)


class ListStore:
    def __init__(self, declared: Values, entries: Entries, current: Callable[[], str]) -> None:
        self._list = ValueStore(Value(declared.name, ArrayType(declared.value)), entries, current)

    def get(self) -> list[Any]:
        return self._list.get() or []

    def append(self, *values: Any) -> None:
        self._list.put([*self.get(), *values])

    def put(self, values: Sequence[Any]) -> None:
        self._list.put(list(values))

    def delete(self) -> None:
        self._list.delete()


Store: TypeAlias = KeyValueStore | ValueStore | ListStore


def store_of(declared: Declaration, entries: Entries, current: Callable[[], str]) -> Store:
    match declared:
        case KeyValues():
            return KeyValueStore(declared, entries)
        case Value():
            return ValueStore(declared, entries, current)
        case Values():
            return ListStore(declared, entries, current)
