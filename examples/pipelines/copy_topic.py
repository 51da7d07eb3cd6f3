"""A function that starts queries of Spark itself: whatever Spark can do."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from ottla.pipelines import Context


def pipeline(spark: SparkSession, context: Context) -> StreamingQuery:
    payments = (
        spark.readStream.format("ottla")
        .options(**context.connection)
        .option("subscribe", "payments")
        .option("startingOffsets", context.starting("earliest"))
        .load()
    )
    writer = payments.select("key", "value").writeStream.format("ottla")
    return (
        writer.options(**context.connection)
        .option("topic", context.topic("payments-copy"))
        .option("checkpointLocation", context.checkpoint("copy"))
        .trigger(**context.trigger)
        .start()
    )
