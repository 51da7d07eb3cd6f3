"""Turns rows of a data frame into records: checks the columns and sorts rows by topic.

The columns are those of Spark's Kafka sink: `value` and, if present, `key`, `headers`, `topic` and
`partition`; and `timestamp`, which that sink does not have. Others are not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.client.errors import BadColumn, RecordTooLarge, TopicMissing
from ottla.client.network.cluster import Cluster
from ottla.client.producer.producer import Producer
from ottla.protocol.errors import KafkaError
from ottla.spark.sink.errors import BadRows, SinkError

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC_WAIT_S: Final = 10
"""How long a missing topic may take to be created, if brokers create missing ones."""


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType, NullType))


def _is_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return _is_bytes(kind.keyType) and _is_bytes(kind.valueType)
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(pair, StructType)
        and pair.names == ["key", "value"]
        and all(_is_bytes(field.dataType) for field in pair)
    )


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, (ByteType, ShortType, IntegerType, LongType))


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, (TimestampType, TimestampNTZType, LongType))


_BYTES: Final = "string or binary: cast it, or encode it (to_json, to_avro, ...)"
_COLUMNS: Final[dict[str, tuple[Callable[[DataType], bool], str]]] = {
    "value": (_is_bytes, _BYTES),
    "key": (_is_bytes, _BYTES),
    "topic": (_is_bytes, "string"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "partition": (_is_number, "int"),
    "timestamp": (_is_time, "timestamp (or bigint: milliseconds)"),
}


@dataclass(frozen=True, slots=True)
class Rows:
    columns: tuple[str, ...]
    topic: str | None
    """None: each row has its own."""

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> Rows:
        """Check the columns; raise `BadRows` if records cannot be made of such rows."""
        columns = tuple(name for name in _COLUMNS if name in schema.names)
        for name in columns:
            _check(schema, name)
        if "value" not in columns:
            raise BadRows(_missing_value(schema))
        if topic is None and "topic" not in columns:
            raise BadRows("no topic: set the option 'topic', or add a column 'topic'")
        if topic is not None:
            columns = tuple(name for name in columns if name != "topic")
        return cls(columns, topic)

    async def send(self, producer: Producer, topic: str, batch: pa.RecordBatch) -> None:
        try:
            await producer.send_arrow(topic, batch, **self._names())
        except BadColumn as error:
            raise BadRows(f"rows for topic {topic!r}: {error}") from None
        except RecordTooLarge as error:
            raise BadRows(_too_large(topic, error)) from None

    def _names(self) -> dict[str, str]:
        names = ("headers", "partition", "timestamp")
        return {name: name for name in names if name in self.columns}

    def by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of each topic, in their order."""
        import pyarrow.compute as pc

        batch = batch.select(list(self.columns))
        if self.topic is not None:
            yield self.topic, batch
            return
        names = batch["topic"]
        if names.null_count:
            raise BadRows(
                f"column 'topic': {names.null_count} of {len(names)} rows have none; fill it, or "
                "set the option 'topic' for all rows"
            )
        found = names.dictionary_encode()
        order = pc.array_sort_indices(found.indices)  # stable: rows of a topic keep their order
        sorted_rows = batch.take(order) if len(found.dictionary) > 1 else batch
        start = 0
        counts = {one["values"]: one["counts"] for one in found.indices.value_counts().to_pylist()}
        for code, topic in enumerate(found.dictionary.to_pylist()):
            yield _text(topic), sorted_rows.slice(start, counts[code])
            start += counts[code]


def _check(schema: StructType, name: str) -> None:
    if schema.names.count(name) > 1:
        raise BadRows(f"column {name!r}: there are several of this name")
    kind = schema[name].dataType
    fits, wanted = _COLUMNS[name]
    if not fits(kind):
        raise BadRows(f"column {name!r} is {kind.simpleString()}, and must be {wanted}")


def _missing_value(schema: StructType) -> str:
    others = ", ".join(schema.names)
    return (
        "there is no column 'value', which is what records hold (string or binary); there are: "
        f"{others}. Name one of them so, or put all of them into it: "
        "select(to_json(struct('*')).alias('value'))"
    )


def _too_large(topic: str, error: RecordTooLarge) -> str:
    where = " ".join(getattr(error, "__notes__", ()))
    return (
        f"rows for topic {topic!r}: a record of {error.size} bytes is larger than "
        f"kafka.max.request.size ({where}); make it smaller, or raise that, and the topic's "
        "max.message.bytes with it"
    )


def _text(topic: str | bytes) -> str:
    return topic.decode() if isinstance(topic, bytes) else topic


async def ensure_topic(cluster: Cluster, topic: str, *, create: bool) -> None:
    """Check that the topic exists or is created, before rows wait for it for minutes."""
    try:
        async with asyncio.timeout(TOPIC_WAIT_S):
            await cluster.topic(topic, create_missing=create)
    except (TopicMissing, TimeoutError):
        raise SinkError(
            f"there is no topic {topic!r}: create it, or check the option or column 'topic'"
        ) from None
    except KafkaError as error:
        raise SinkError(f"rows cannot be written to topic {topic!r}: {error}") from None
