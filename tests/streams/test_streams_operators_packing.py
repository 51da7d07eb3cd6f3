"""Values as text, through Spark and through Python, come out as they went in."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, MapType, StringType, StructType

from ottla.streams.operators.global_tables import GlobalTable, stream_global
from ottla.streams.operators.packing import Codec, check_packable, packed, unpacked

KINDS: dict[str, list[Any]] = {
    "string": ["", "plain", 'quo"te\\', "\x01\x02\n", "žluťoučký 🐎"],
    "boolean": [True, False],
    "int": [0, -(2**31)],
    "bigint": [2**63 - 1, -(2**63)],
    "double": [0.1, -1e300, 5.0, float("inf")],
    "decimal(38,10)": [Decimal("1.5000000000"), Decimal("-12345678901234567890.0123456789")],
    "binary": [b"", b"\x00\xff"],
    "date": [date(1999, 12, 31)],
    "timestamp": [datetime(2024, 2, 29, 23, 59, 59, 123456, UTC), datetime(1969, 1, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime(2024, 2, 29, 23, 59, 59, 1)],
    "array<decimal(4,2)>": [[], [Decimal("1.50"), None]],
    "map<string,timestamp>": [{"a": datetime(2024, 1, 1, tzinfo=UTC), "b": None}],
    "struct<a:bigint,b:struct<c:string,d:array<binary>>>": [
        {"a": 1, "b": {"c": "x", "d": [b"y"]}},
        {"a": None, "b": None},
        {"a": None, "b": {"c": None, "d": None}},
    ],
}


def test_values_of_every_type_survive(spark: SparkSession) -> None:
    names = {kind: f"c{number}" for number, kind in enumerate(KINDS)}
    schema = StructType.fromDDL(", ".join(f"{name} {kind}" for kind, name in names.items()))
    assert isinstance(schema, StructType)
    height = max(map(len, KINDS.values()))
    rows = [
        tuple(values[row] if row < len(values) else None for values in KINDS.values())
        for row in range(height)
    ]
    frame = spark.createDataFrame(rows, schema)
    texts = frame.select([packed(F.col(name)).alias(name) for name in schema.names]).collect()
    written = []
    for given, text in zip(rows, texts, strict=True):
        again = []
        for field, value, one in zip(schema, given, text, strict=True):
            codec = Codec(field.dataType, field.name)
            assert (codec.loads(one) if one else None) == value
            again.append(codec.dumps(value))
        written.append(tuple(again))
    back = spark.createDataFrame(written, schema.names).select(
        [unpacked(F.col(field.name), field.dataType).alias(field.name) for field in schema]
    )
    assert [row.asDict(True) for row in back.collect()] == [
        row.asDict(True) for row in frame.collect()
    ]


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (LongType(), "7", "the result is '7', which is no bigint"),
        (LongType(), True, "which is no bigint"),
        (DoubleType(), "NaN", "which is no double"),
        (StructType().add("a", LongType()), {"b": 1}, "the result has no field b; it has a"),
        (StructType().add("a", LongType()), {"a": "x"}, "the result.a is 'x'"),
        (StructType().add("a", LongType()), [1], "give a dict with a"),
    ],
)
def test_what_is_not_of_its_type_is_told(kind: Any, value: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        Codec(kind, "the result").dumps(value)


def test_maps_need_strings_as_keys() -> None:
    kind = StructType().add("m", MapType(LongType(), StringType()))
    with pytest.raises(ValueError, match=r"value\.m is a map with keys of type bigint"):
        check_packable(kind, "value")


def test_a_global_table_is_read_again_when_it_has_changed(spark: SparkSession) -> None:
    changelog: list[tuple[str, str | None, int]] = [("cz", "Czechia", 0)]
    reads = []

    def read() -> Any:
        reads.append(len(changelog))
        frame = spark.createDataFrame(changelog, "key string, value string, `__offset` bigint")
        return frame.withColumn("timestamp", F.timestamp_millis(F.lit(0)))

    stream = spark.createDataFrame(
        [("1", "cz"), ("2", "sk"), ("3", None), (None, "cz")], "key string, value string"
    ).withColumn("timestamp", F.timestamp_millis(F.lit(5)))

    def joined(how: str) -> list[tuple[Any, ...]]:
        pairs = stream_global(stream, table.rows(), on=F.col("value"), how=how)
        return sorted((row["key"] or "", row["left"], row["right"]) for row in pairs.collect())

    table = GlobalTable(read, lambda: len(changelog))
    try:
        assert joined("inner") == [("", "cz", "Czechia"), ("1", "cz", "Czechia")]
        assert joined("left")[-1] == ("2", "sk", None)
        assert reads == [1]
        changelog += [("sk", "Slovakia", 1), ("cz", None, 2)]
        assert joined("inner") == [("2", "sk", "Slovakia")]
        assert reads == [1, 3]
    finally:
        table.close()
