"""Where Spark looks for data sources by itself: packages named `pyspark_*` with a `DefaultSource`.

With it `format("ottla")` works in every session, and nothing has to be registered.
"""

from ottla.spark.datasource import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
