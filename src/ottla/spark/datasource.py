"""The data source named `ottla`, which creates readers and writers for Spark.

spark.readStream.format("ottla").option("kafka.bootstrap.servers", ...).option("subscribe", ...)

Spark pickles this class by name and creates it again in the processes that plan, read and write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ottla.spark.source.columns import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OttlaDataSource(DataSource):
    """Topics of any Kafka cluster, with the options and columns of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """Return the columns. Spark asks when a source is named, so wrong options show there."""
        from ottla.spark.source.options import check_options, includes_headers

        check_options(self.options)
        return spark_schema(includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.source.batch_reader import BatchReader

        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ottla.spark.source.stream_reader import RefusedReader, StreamReader

        try:
            return StreamReader(self.options, schema)
        except ValueError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink.writers import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ottla.spark.sink.writers import StreamWriter

        return StreamWriter(self.options, schema, overwrite)


def register(spark: SparkSession) -> None:
    """Register the format `ottla` with a session. If this package is installed for the driver's
    Python, Spark finds it by itself."""
    spark.dataSource.register(OttlaDataSource)
