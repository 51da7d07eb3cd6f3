"""The data source named `ottla`: what Spark asks for readers and writers.

spark.readStream.format("ottla").option("kafka.bootstrap.servers", ...).option("subscribe", ...)

Spark pickles this class by its name and makes it anew in the processes that plan, read and write.
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
        """Spark asks when a table or a stream is named: what is wrong with it shows there."""
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
    """Make the format `ottla` known to a session. Where this package is installed for the driver's
    Python, Spark finds it without."""
    spark.dataSource.register(OttlaDataSource)
