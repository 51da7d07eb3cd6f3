"""Compares two outputs of the same kind: record by record, and key by key if they have keys.

In a stream every record counts. In a table only the last record of each key counts: the earlier
ones depend on where its batches ended. An output does not show which of the two it is, so both are
reported.

Pure. JSON values are equal if they mean the same, whatever the order of their fields.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

EXAMPLES_MAX = 10
SHOWN_CHARACTERS = 200

Row = tuple[bytes | None, bytes | None]
"""Key and value."""


@dataclass(frozen=True)
class Records:
    """Counts of all records, whatever their order."""

    same: int
    only_old: int
    only_new: int


@dataclass
class Difference:
    """Common and different rows of two outputs; counts are of the last values of keys, or of values
    if there are no keys."""

    by_key: bool
    rows: tuple[int, int]
    records: Records
    same: int = 0
    different: int = 0
    only_old: int = 0
    only_new: int = 0
    examples: list[dict[str, str | None]] = field(default_factory=list)

    @property
    def is_none(self) -> bool:
        keys_differ = self.different or self.only_old or self.only_new
        return not (keys_differ or self.records.only_old or self.records.only_new)

    def add(self, key: bytes | None, old: bytes | None, new: bytes | None) -> None:
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append({"key": _shown(key), "old": _shown(old), "new": _shown(new)})

    def as_json(self) -> dict[str, Any]:
        return {
            "by_key": self.by_key,
            "rows_old": self.rows[0],
            "rows_new": self.rows[1],
            "records": asdict(self.records),
            "same": self.same,
            "different": self.different,
            "only_old": self.only_old,
            "only_new": self.only_new,
            "examples": self.examples,
        }


def compare(old: Iterable[Row], new: Iterable[Row]) -> Difference:
    """Compare rows in offset order: the last value of each key counts, and null is a deletion."""
    old_rows, new_rows = list(old), list(new)
    old_bag, new_bag = Counter(map(_meaning, old_rows)), Counter(map(_meaning, new_rows))
    has_keys = all(key is not None for key, _ in [*old_rows, *new_rows])
    found = Difference(
        by_key=has_keys,
        rows=(len(old_rows), len(new_rows)),
        records=Records(
            same=(old_bag & new_bag).total(),
            only_old=(old_bag - new_bag).total(),
            only_new=(new_bag - old_bag).total(),
        ),
    )
    if has_keys:
        _count_keys(found, _latest(old_rows), _latest(new_rows))
    else:
        found.same, found.only_old = found.records.same, found.records.only_old
        found.only_new = found.records.only_new
    _add_records(found, old_bag, new_bag)
    return found


def _latest(rows: Iterable[Row]) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for key, value in rows:
        assert key is not None
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def _count_keys(found: Difference, old: Mapping[bytes, bytes], new: Mapping[bytes, bytes]) -> None:
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


def _add_records(found: Difference, old: Counter[Row], new: Counter[Row]) -> None:
    """Add examples of records, if keys have given none."""
    if found.examples:
        return
    for key, value in islice(old - new, EXAMPLES_MAX):
        found.add(key, value, None)
    for key, value in islice(new - old, EXAMPLES_MAX):
        found.add(key, None, value)


def means_the_same(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def _meaning(row: Row) -> Row:
    """Return the row with its JSON in one spelling."""
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
