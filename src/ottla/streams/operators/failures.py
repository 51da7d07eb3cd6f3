"""A function that raises: the error names the operator and the record, or becomes a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.streams.operators.records import PART, Record, Result

MARK = "ottla.streams: "
"""The prefix of error messages that name a node themselves."""

_Made = TypeVar("_Made")


class FunctionFailed(Exception):
    """Stops the query."""


class Guard:
    """Calls the user's functions. `set_aside`: failed records become rows and the query goes on."""

    def __init__(self, node: str, set_aside: bool) -> None:
        self._node = node
        self._set_aside = set_aside

    def call(
        self, record: Record, results: list[Result], otherwise: _Made, work: Callable[[], _Made]
    ) -> _Made:
        """Return the result of `work`, or `otherwise` if it failed and the record was set aside."""
        try:
            return work()
        except Exception as error:
            if not self._set_aside:
                raise self._failure_of(record, error) from error
            results.append(_letter(record, error))
            return otherwise

    def _failure_of(self, record: Record, error: Exception) -> FunctionFailed:
        key = record.key[5:-1]
        return FunctionFailed(
            f"{MARK}{self._node}: {type(error).__name__}: {error}"
            f" (record {record.place}, key {key})"
        )


def _letter(record: Record, error: Exception) -> Result:
    message = str(error).replace(PART, " ")
    return Result(
        record.key,
        "",
        record.time,
        other=record.value,
        origin=record,
        headers=record.headers,
        error_kind=type(error).__name__,
        error=message,
    )
