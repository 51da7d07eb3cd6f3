"""Spark looks for data sources in packages named `pyspark_*` with a `DefaultSource`, such as this.

So `format("ottla")` works in every session, without registration.
"""

from ottla.spark.datasource import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
