"""Two outputs of the same kind, compared: by key where records have keys, else as bags of values.

Pure. Values that are JSON are the same if they mean the same, whatever the order of their fields.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

EXAMPLES_MAX = 10
SHOWN_CHARACTERS = 200

Row = tuple[bytes | None, bytes | None]
"""Key and value."""


@dataclass
class Difference:
    """What two outputs have in common and what not; counts are of keys, or of values without."""

    by_key: bool
    rows: tuple[int, int]
    same: int = 0
    different: int = 0
    only_old: int = 0
    only_new: int = 0
    examples: list[dict[str, str | None]] = field(default_factory=list)

    @property
    def is_none(self) -> bool:
        return not (self.different or self.only_old or self.only_new)

    def add(self, key: bytes | None, old: bytes | None, new: bytes | None) -> None:
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append({"key": _shown(key), "old": _shown(old), "new": _shown(new)})

    def as_json(self) -> dict[str, Any]:
        return {
            "by_key": self.by_key,
            "rows_old": self.rows[0],
            "rows_new": self.rows[1],
            "same": self.same,
            "different": self.different,
            "only_old": self.only_old,
            "only_new": self.only_new,
            "examples": self.examples,
        }


def compare(old: Iterable[Row], new: Iterable[Row]) -> Difference:
    """In the order of their offsets: of each key the last value counts, and none is a deletion."""
    old_rows, new_rows = list(old), list(new)
    counts = (len(old_rows), len(new_rows))
    if all(key is not None for key, _ in [*old_rows, *new_rows]):
        return _by_key(_latest(old_rows), _latest(new_rows), counts)
    return _as_bags(Counter(map(_meaning, old_rows)), Counter(map(_meaning, new_rows)), counts)


def _latest(rows: Iterable[Row]) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for key, value in rows:
        assert key is not None
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def _by_key(
    old: Mapping[bytes, bytes], new: Mapping[bytes, bytes], counts: tuple[int, int]
) -> Difference:
    found = Difference(by_key=True, rows=counts)
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if before is None:
            found.only_new += 1
        elif after is None:
            found.only_old += 1
        elif before == after or means_the_same(before, after):
            found.same += 1
            continue
        else:
            found.different += 1
        found.add(key, before, after)
    return found


def _as_bags(old: Counter[Row], new: Counter[Row], counts: tuple[int, int]) -> Difference:
    found = Difference(by_key=False, rows=counts, same=(old & new).total())
    for (key, value), count in (old - new).items():
        found.only_old += count
        found.add(key, value, None)
    for (key, value), count in (new - old).items():
        found.only_new += count
        found.add(key, None, value)
    return found


def means_the_same(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def _meaning(row: Row) -> Row:
    """JSON in one spelling."""
    key, value = row
    try:
        return key, json.dumps(json.loads(value or b""), sort_keys=True).encode()
    except ValueError:
        return row


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data.decode(errors="backslashreplace")
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
