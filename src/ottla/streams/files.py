"""Small files in the checkpoint folder, through Spark's file systems, as it may be anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_text(spark: SparkSession, file: str) -> str | None:
    """Return the text of a file; None if it does not exist."""
    path, system = _at(spark, file)
    if not system.exists(path):
        return None
    stream = system.open(path)
    try:
        text: str = _java(spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return text


def write_text(spark: SparkSession, file: str, text: str) -> None:
    path, system = _at(spark, file)
    stream = system.create(path, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _at(spark: SparkSession, file: str) -> tuple[Any, Any]:
    path = _java(spark).org.apache.hadoop.fs.Path(file)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def _java(spark: SparkSession) -> Any:
    return spark._jvm
