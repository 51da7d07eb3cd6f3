"""The entries of a store: keys, values, and the times of windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True)
class Span:
    """The start and end of a window."""

    start: datetime
    end: datetime

    @classmethod
    def of_ms(cls, start: int, end: int) -> Span:
        return cls(moment(start), moment(end))


@dataclass(frozen=True)
class Entry:
    key: Any
    value: Any
    window: Span | None = None


class StateForm(Protocol):
    """How an operation stores its state, and how it is read back."""

    @property
    def variable(self) -> str | None:
        """Its name in the state of an operator, if that has several."""
        ...

    def having_key(self, data: DataFrame, key: Any) -> DataFrame:
        """Return rows that may have this key, as far as Spark can filter by itself."""
        ...

    def entries(self, row: Row) -> Iterator[Entry]: ...


def moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
