"""Reads columns that were passed in: all their content is checked."""

import struct
from typing import Any

_SPAN = struct.Struct("<ii")
_INT64 = struct.Struct("<q")


class BytesColumn:
    """`count` rows of bytes or None: offsets, data and validity in Arrow's layout."""

    def __init__(self, name: str, count: int, offsets: Any, data: Any, validity: Any) -> None:
        self._name = name
        self.offsets = (
            None if offsets is None else checked(offsets, f"{name} offsets", count + 1, 4)
        )
        self.data = _view(b"" if data is None else data)
        bits = (
            None if validity is None else checked(validity, f"{name} validity", (count + 7) // 8, 1)
        )
        self.validity = bits

    def at(self, row: int) -> bytes | None:
        if self.offsets is None or (
            self.validity is not None and not self.validity[row >> 3] >> (row & 7) & 1
        ):
            return None
        start, end = span(self.offsets, row, len(self.data), self._name)
        return bytes(self.data[start:end])


class IntColumn:
    """`count` rows of int64."""

    def __init__(self, name: str, count: int, values: Any) -> None:
        self.values = checked(values, name, count, _INT64.size)

    def at(self, row: int) -> int:
        value: int = _INT64.unpack_from(self.values, row * _INT64.size)[0]
        return value


def span(offsets: memoryview, row: int, end: int, name: str) -> tuple[int, int]:
    """Return start and end of row `row`, which must be within `end`."""
    first, behind = _SPAN.unpack_from(offsets, 4 * row)
    if not 0 <= first <= behind <= end:
        raise ValueError(
            f"row {row} of the {name} column spans {first} to {behind}, "
            f"which does not lie within its {end} values"
        )
    return first, behind


def checked(buffer: Any, name: str, items: int, size: int) -> memoryview:
    """Return the buffer as bytes; it must hold `items` of `size` bytes."""
    view = _view(buffer)
    if items < 0 or len(view) < items * size:
        raise ValueError(
            f"the buffer of {name} needs {items * size} bytes for {items} items, it has {len(view)}"
        )
    return view


def _view(buffer: Any) -> memoryview:
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")  # an empty view cannot be cast
