"""State of Spark's own aggregates: not results, but the numbers they are computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import StoreMissing
from ottla.streams.stores.entry import Entry, Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_FUNCTION = re.compile(r"Column<'(\w+)\(")
_WIDTHS = {"count": 1, "sum": 1, "min": 1, "max": 1, "avg": 2, "mean": 2}
"""How many numbers Spark keeps for each aggregate."""


def _average(kept: Sequence[Any]) -> float | None:
    total, count = kept
    return total / count if count else None


@dataclass(frozen=True)
class NativeState:
    """`names` are the fields of the value, or None if the value is the one aggregate."""

    names: tuple[str, ...] | None
    aggregates: tuple[str, ...]
    variable: str | None = None

    @classmethod
    def of(cls, wanted: Column | Mapping[str, Column]) -> NativeState:
        from pyspark.sql import Column

        if isinstance(wanted, Column):
            return cls(None, (str(wanted),))
        return cls(tuple(wanted), tuple(map(str, wanted.values())))

    def having_key(self, data: DataFrame, key: Any) -> DataFrame:
        from pyspark.sql import functions as F

        is_plain = isinstance(key, str | int | float | bytes)
        return data.filter(F.col("key.key") == F.lit(key)) if is_plain else data

    def entries(self, row: Row) -> Iterator[Entry]:
        key, window = row["key"][0], row["key"][1] if len(row["key"]) > 1 else None
        span = Span(_utc(window[0]), _utc(window[1])) if window else None
        results = self._results(tuple(row["value"]))
        value = results[0] if self.names is None else dict(zip(self.names, results, strict=True))
        yield Entry(_plain(key), value, span)

    def _results(self, kept: Sequence[Any]) -> list[Any]:
        """Return the results. Spark keeps the same aggregate once, however often it is used."""
        known: dict[str, Any] = {}
        position = 0
        for text in self.aggregates:
            if text not in known:
                found = _FUNCTION.match(text)
                name = found[1] if found else ""
                if name not in _WIDTHS:
                    raise StoreMissing(
                        f"what Spark keeps for {text} cannot be read back: ask for plain aggregates"
                        f" ({', '.join(sorted(_WIDTHS))}), or read the topic the results go to"
                    )
                width = _WIDTHS[name]
                part = kept[position : position + width]
                known[text] = _average(part) if name in ("avg", "mean") else part[0]
                position += width
        return [known[text] for text in self.aggregates]


def _utc(local: datetime) -> datetime:
    """Convert to UTC: Spark returns times without a zone, in this process's time zone."""
    return local.astimezone(UTC)


def _plain(key: Any) -> Any:
    from pyspark.sql import Row

    return Row.asDict(key, recursive=True) if isinstance(key, Row) else key
