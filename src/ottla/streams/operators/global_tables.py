"""A table that every task reads whole, and the join with it.

Spark plans the read of a frame that is no stream only once, with the query: a stream joined with it
would always see the table as it was then. So the table is read again, and joined, in the frame of
each batch, inside foreachBatch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.streams.operators.frames import HEADERS
from ottla.streams.operators.tables import latest


class GlobalTable:
    """The rows of a changelog, read again when it has changed.

    `read()` returns the whole present changelog as a new frame; `version()` returns a value that
    differs when it has changed, such as the ends of its partitions. Without it, each use reads.
    """

    def __init__(
        self, read: Callable[[], DataFrame], version: Callable[[], Hashable] | None = None
    ) -> None:
        self._read = read
        self._version = version
        self._known: Hashable = None
        self._rows: DataFrame | None = None

    def rows(self) -> DataFrame:
        if self._version is None:
            return latest(self._read())
        version = self._version()
        if self._rows is None or version != self._known:
            self.close()
            self._rows, self._known = latest(self._read()).persist(), version
        return self._rows

    def close(self) -> None:
        """Release the memory."""
        if self._rows is not None:
            self._rows.unpersist()
            self._rows = None


def stream_global(
    frame: DataFrame, rows: DataFrame, *, on: Column | None = None, how: str = "inner"
) -> DataFrame:
    """Join records with the row of key `on`, by default their own key; `joins.joined` follows.

    `frame` is that of a batch. Records without a value are skipped, as in Kafka Streams.
    """
    if how not in ("inner", "left"):
        raise ValueError(f"how is {how!r}: it must be inner or left")
    wanted = F.col("key") if on is None else on
    headers = F.col("headers") if "headers" in frame.columns else F.lit(None).cast(HEADERS)
    place = [name for name in frame.columns if name.startswith("__")]
    left = frame.filter(F.col("value").isNotNull()).select(
        "key",
        F.col("value").alias("left"),
        "timestamp",
        headers.alias("headers"),
        *place,
        wanted.alias("__wanted"),
    )
    right = rows.select(F.col("key").alias("__found"), F.col("value").alias("right"))
    pairs = left.join(F.broadcast(right), F.col("__wanted") == F.col("__found"), how)
    return pairs.select("key", "left", "right", "timestamp", "headers", *place)
