"""Forms of keys and values: there and back, as Java has them, and what is not of the form."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.streams import BadTopology, Bytes, Double, Int, Json, Long, Serde, String, Windowed
from ottla.streams.serdes import serde_for

ROW = Json("a int, b string, c struct<d: double, e: array<date>>, t timestamp")

# The form, the bytes of a topic, and the value they are.
GOOD: list[tuple[Serde, bytes | None, Any]] = [
    (String(), "gr\u00fc\u00dfe".encode(), "gr\u00fc\u00dfe"),
    (String(), b"", ""),
    (String(), None, None),
    (Bytes(), b"\xff\x00", b"\xff\x00"),
    (Long(), struct.pack(">q", -5), -5),
    (Long(), struct.pack(">q", 2**63 - 1), 2**63 - 1),
    (Long(), struct.pack(">q", -(2**63)), -(2**63)),
    (Long(), None, None),
    (Int(), struct.pack(">i", 2**31 - 1), 2**31 - 1),
    (Int(), struct.pack(">i", -(2**31)), -(2**31)),
    (Int(), struct.pack(">i", -1), -1),
    (Double(), struct.pack(">d", 1.5), 1.5),
    (Double(), struct.pack(">d", -math.inf), -math.inf),
    (Double(), struct.pack(">d", 5e-324), 5e-324),
    (Double(), None, None),
    (Json("array<int>"), b"[1,2]", [1, 2]),
    (Json("map<string,int>"), b'{"x":1}', {"x": 1}),
    (Json("boolean"), b"true", True),
    (Json("string"), b'"x \\" y"', 'x " y'),
    (ROW, b'{"a":1,"b":null,"c":{"d":2.5,"e":["2024-02-29"]},"t":null}', ...),
    (ROW, None, None),
]

LENIENT = {
    b' {"a" : 1, "more": [1], "b": "x"} ': (1, "x"),
    b"{}": (None, None),
    b'{"b": {"c": 1}}': (None, '{"c":1}'),
}

BAD: list[tuple[Serde, bytes]] = [
    (String(), b"\xff\xfe"),
    (Long(), b"12345"),
    (Long(), b""),
    (Int(), b"12345678"),
    (Double(), b"1.5"),
    (ROW, b"not json"),
    (ROW, b""),
    (ROW, b'{"a": 1'),
    (ROW, b'{"a": 1} rubbish'),
    (ROW, b'{"a": 1}{"a": 2}'),
    (ROW, b'{"a": 1}}'),
    (ROW, b'[{"a": 1}]'),
    (ROW, b"17"),
    (ROW, b'{"a": "one"}'),
    (ROW, b'{"a": 1.5}'),
    (ROW, b'{"a": 99999999999}'),
    (ROW, b'{"c": {"d": "x"}}'),
    (ROW, b'{"c": {"e": ["2024-13-01"]}}'),
    (Json("array<int>"), b'{"x": 1}'),
    (Windowed(String(), "1 minute"), b"short"),
]


def parsed(spark: SparkSession, serde: Serde, data: Sequence[bytes | None]) -> list[Any]:
    """Value, problem and bytes again, of each."""
    frame = spark.createDataFrame(
        [(number, one) for number, one in enumerate(data)], "n int, data binary"
    ).coalesce(1)
    found = serde.parse(F.col("data"))
    frame = frame.select("n", found.value.alias("value"), found.problem.alias("problem"))
    return frame.select("value", "problem", serde.encode(F.col("value")).alias("back")).collect()


def forms(cases: list[Any]) -> list[Serde]:
    return list(dict.fromkeys(case[0] for case in cases))


@pytest.mark.parametrize("serde", forms(GOOD), ids=str)
def test_values_come_back_as_they_were(spark: SparkSession, serde: Serde) -> None:
    cases = [(data, value) for form, data, value in GOOD if form == serde]
    rows = parsed(spark, serde, [data for data, _ in cases])
    for row, (data, value) in zip(rows, cases, strict=True):
        assert row["problem"] is None
        assert row["back"] == data
        if value is not ...:
            assert row["value"] == value


def test_what_is_not_of_the_form_is_noticed(spark: SparkSession) -> None:
    for serde in forms(BAD):
        data = [one for form, one in BAD if form == serde]
        for row, one in zip(parsed(spark, serde, data), data, strict=True):
            assert row["problem"], f"{one!r} passes for {serde}"


def test_json_leaves_out_what_the_schema_does_not_name(spark: SparkSession) -> None:
    rows = parsed(spark, ROW, list(LENIENT))
    assert [row["problem"] for row in rows] == [None] * len(rows)
    assert [(row["value"]["a"], row["value"]["b"]) for row in rows] == list(LENIENT.values())


def test_keys_of_windows_are_written_as_kafka_streams_writes_them(spark: SparkSession) -> None:
    minute = b"key" + struct.pack(">q", 120_000)
    session = b"key" + struct.pack(">qq", 150_000, 120_000)
    for serde, data, end in (
        (Windowed(String(), "1 minute"), minute, 180),
        (Windowed(String()), session, 150),
    ):
        (row,) = parsed(spark, serde, [data])
        assert row["back"] == data
        assert row["problem"] is None
        assert row["value"]["key"] == "key"
        window = row["value"]["window"]
        assert (window["start"].timestamp(), window["end"].timestamp()) == (120, end)


def test_the_form_follows_from_the_type(spark: SparkSession) -> None:
    schema = spark.range(0).selectExpr(
        "'x' AS string", "1L AS long", "1 AS int", "1.5D AS double", "X'00' AS bytes",
        "named_struct('a', 1) AS row", "array(1) AS list", "true AS flag",
    ).schema  # fmt: skip
    found = [serde_for(field.dataType, "it") for field in schema.fields[:-1]]
    expected = [String, Long, Int, Double, Bytes, Json, Json]
    assert [type(one) for one in found] == expected
    with pytest.raises(BadTopology, match="it is of type boolean, which has no usual form"):
        serde_for(schema["flag"].dataType, "it")
