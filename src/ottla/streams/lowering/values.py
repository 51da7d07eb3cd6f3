"""The record that a Python function gets: the same names as a lambda over columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


class Row(dict[str, Any]):
    """A dict whose entries are also attributes: `r.value.amount` is `r.value["amount"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"there is no field {name!r}; there are: {known}") from None


def python_value(given: Any) -> Any:
    """Convert mappings to rows at every depth."""
    if isinstance(given, Mapping):
        return Row((name, python_value(part)) for name, part in given.items())
    if isinstance(given, list):
        return [python_value(part) for part in given]
    return given


class PythonRecord:
    """The `r` of a function that is called for each record."""

    __slots__ = ("_row", "key", "value")

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self.key: Any = python_value(row["key"])
        self.value: Any = python_value(row["value"])

    @property
    def timestamp(self) -> datetime:
        moment: datetime = self._row["timestamp"]
        return moment

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return [(one["key"], one["value"]) for one in self._row["headers"] or ()]

    @property
    def topic(self) -> str | None:
        """The topic the record was read from, if still known."""
        name: str | None = self._row.get("__topic")
        return name
