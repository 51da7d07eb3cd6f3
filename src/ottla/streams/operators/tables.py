"""Tables: the rows of a changelog, and changelogs made of changelogs.

Within a batch a key's changes are processed by offset, and have at most one result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ottla.streams.operators.engine import BUCKETS, Columns, Input, run
from ottla.streams.operators.failures import Guard
from ottla.streams.operators.frames import with_place
from ottla.streams.operators.packing import Codec
from ottla.streams.operators.rows import Changes, TableFold


def latest(changelog: DataFrame) -> DataFrame:
    """Return the rows of a table: the newest value of each key. Not for streams.

    The newest value has the highest offset in its partition. Deleted keys have no row.
    """
    frame = with_place(changelog).filter(F.col("key").isNotNull())
    rest = [name for name in frame.columns if name != "key"]
    newest = F.max_by(F.struct(*rest), F.struct("__offset", "timestamp", "__partition"))
    rows = frame.groupBy("key").agg(newest.alias("row")).select("key", "row.*")
    return rows.filter(F.col("value").isNotNull()).select(*frame.columns)


def changes(changelog: DataFrame, *, buckets: int = BUCKETS) -> DataFrame:
    """Return the old and the new value of each row: `key`, `old`, `new`, `timestamp`.

    This is the first half of regrouping a table; `regrouped` gives each value its new key.
    """
    used = changelog.filter(F.col("key").isNotNull())
    text = run([Input(used)], Changes(), buckets=buckets)
    columns, kind = Columns(), changelog.schema["value"].dataType
    return text.select(
        columns.value("key", changelog.schema["key"].dataType).alias("key"),
        columns.value("other", kind).alias("old"),
        columns.value("value", kind).alias("new"),
        *columns.usual(),
    )


def regrouped(
    changed: DataFrame, grouper: Callable[[Column, Column], tuple[Column, Column]]
) -> DataFrame:
    """Regroup changes, without state; `grouper(key, value)` returns a row's new key and value.

    The value becomes a struct of `old` and `new`. If the key stays the same both are set; otherwise
    there are two records, the old value first. Rows without a new key or value are left out.
    """
    old, new = _grouped("old", grouper), _grouped("new", grouper)
    same = old["key"] == new["key"]
    nothing = F.lit(None)
    both = F.array(_change(old["key"], old["value"], new["value"]))
    apart = F.array(
        F.when(old.isNotNull(), _change(old["key"], old["value"], nothing)),
        F.when(new.isNotNull(), _change(new["key"], nothing, new["value"])),
    )
    one = F.explode(F.array_compact(F.when(same, both).otherwise(apart))).alias("__change")
    kept = [name for name in changed.columns if name not in ("key", "old", "new")]
    rows = changed.select(one, *kept)
    value = F.struct(F.col("__change.old").alias("old"), F.col("__change.new").alias("new"))
    return rows.select(F.col("__change.key").alias("key"), value.alias("value"), *kept)


def _grouped(side: str, grouper: Callable[[Column, Column], tuple[Column, Column]]) -> Column:
    key, value = grouper(F.col("key"), F.col(side))
    complete = F.col(side).isNotNull() & key.isNotNull() & value.isNotNull()
    return F.when(complete, F.struct(key.alias("key"), value.alias("value")))


def _change(key: Column, old: Column, new: Column) -> Column:
    return F.struct(key.alias("key"), old.alias("old"), new.alias("new"))


def aggregate_table(
    regrouped_changes: DataFrame,
    initial: Callable[[], Any],
    adder: Callable[[Any, Any, Any], Any],
    subtractor: Callable[[Any, Any, Any], Any],
    kind: DataType,
    *,
    node: str = "aggregate",
    set_aside: bool = False,
    buckets: int = BUCKETS,
) -> DataFrame:
    """The second half: `adder` and `subtractor` are called with `(key, value, aggregate)`."""
    schema = regrouped_changes.schema
    key, change = schema["key"].dataType, schema["value"].dataType
    operator = TableFold(
        initial,
        (adder, subtractor),
        (Codec(key, "key"), Codec(change, "value"), Codec(kind, "the result")),
        Guard(node, set_aside),
    )
    text = run([Input(regrouped_changes)], operator, buckets=buckets)
    return _plain(
        text, StructType().add("key", key).add("value", kind), errors=change if set_aside else None
    )


def _plain(text: DataFrame, schema: StructType, errors: DataType | None = None) -> DataFrame:
    columns = Columns()
    key = schema["key"].dataType
    shown = [
        columns.value("key", key).alias("key"),
        columns.value("value", schema["value"].dataType).alias("value"),
        *columns.usual(headers="headers" in schema.names),
    ]
    return text.select(*shown, *(columns.errors(key, errors) if errors else ()))
