"""The pipeline of the demo: what `ottla demo` runs on Spark, and a pattern to copy.

    payments ─┬─> archive in Parquet, everything as it came
              ├─> payments-dead-letters: what is no payment
              └─> payments-clean: each payment once, with its customer ─┬─> merchant-minutes
                                                                        └─> fraud-alerts

Five streaming queries. Those that write topics do so exactly once, so each can be killed at any
time: it goes on from its checkpoint, and readers of committed records see nothing twice.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from ottla.demo import rules
from ottla.demo.fraud import ALERT, FraudRules

PAYMENT = (
    "id string, card string, customer string, merchant string, category string, country string, "
    "channel string, amount_cents bigint, at timestamp, broken string"
)
CLEAN = PAYMENT.replace("broken string", "name string, typical_cents bigint")
CUSTOMER = "customer string, name string, typical_cents bigint"


class Place(NamedTuple):
    """Where the pipeline works."""

    bootstrap: str
    folder: str
    """For checkpoints and the archive."""


def start(spark: SparkSession, place: Place) -> dict[str, StreamingQuery]:
    """Start every query, in the order in which data flows through them."""
    raw = read(spark.readStream, place, rules.PAYMENTS)
    parsed = parse(raw)
    clean = enrich(once(parsed.filter(is_payment())), customers(spark, place))
    cleaned = typed(read(spark.readStream, place, rules.CLEAN), CLEAN)
    return {
        "archive": run(place, "archive", parquet(raw, f"{place.folder}/archive"), "3 seconds"),
        "dead letters": run(
            place,
            "dead-letters",
            topic(parsed.filter(~is_payment()).select("key", "value"), place, rules.DEAD_LETTERS),
            "3 seconds",
        ),
        "clean": run(place, "clean", topic(as_json(clean, "card"), place, rules.CLEAN)),
        "minutes": run(place, "minutes", updates(minutes(cleaned), place, rules.MERCHANT_MINUTES)),
        "alerts": run(place, "alerts", topic(alerts(cleaned), place, rules.ALERTS)),
    }


# What is done to the data.


def parse(raw: DataFrame) -> DataFrame:
    fields = F.from_json(
        F.col("value").cast("string"), PAYMENT, {"columnNameOfCorruptRecord": "broken"}
    )
    return raw.withColumn("payment", fields)


def is_payment() -> Column:
    """Whole JSON, every field there, and an amount that can be paid."""
    names = [field.split()[0] for field in CLEAN.split(", ")[:9]]
    whole = F.lit(True)
    for name in names:
        whole &= F.col(f"payment.{name}").isNotNull()
    return F.coalesce(
        whole & F.col("payment.broken").isNull() & (F.col("payment.amount_cents") > 0), F.lit(False)
    )


def once(parsed: DataFrame) -> DataFrame:
    """Each payment once, though terminals send some again; those that are too late are left out."""
    payments = parsed.select("payment.*").drop("broken")
    waiting = payments.withWatermark("at", f"{rules.LATENESS_MINUTES} minutes")
    return waiting.dropDuplicatesWithinWatermark(["id"])


def enrich(payments: DataFrame, table: DataFrame) -> DataFrame:
    return payments.join(F.broadcast(table), "customer")


def minutes(payments: DataFrame) -> DataFrame:
    """What each merchant took in each minute, as a changelog: the newest total of a key counts."""
    by_minute = payments.withWatermark("at", f"{rules.MEMORY_MINUTES} minutes").groupBy(
        "merchant", F.window("at", "1 minute")
    )
    totals = by_minute.agg(
        F.count("*").alias("payments"), F.sum("amount_cents").alias("amount_cents")
    )
    start_ms = F.unix_millis("window.start")
    return totals.select(
        F.concat_ws("@", "merchant", start_ms.cast("string")).alias("key"),
        F.to_json(F.struct("payments", "amount_cents")).alias("value"),
    )


def alerts(payments: DataFrame) -> DataFrame:
    in_ms = payments.withColumn("at_ms", F.unix_millis("at")).drop("at")
    found = in_ms.groupBy("card").transformWithState(FraudRules(), ALERT, "Append", "None")
    return found.select(F.col("card").alias("key"), F.to_json(F.struct("*")).alias("value"))


# How it is read and written.


def read(reader: DataFrameReader | DataStreamReader, place: Place, name: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": place.bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": name,
        "startingOffsets": "earliest",
    }
    return reader.format("ottla").options(**options).load()


def customers(spark: SparkSession, place: Place) -> DataFrame:
    """The table, from the newest record of each key."""
    records = read(spark.read, place, rules.CUSTOMERS)
    newest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    return typed(newest, CUSTOMER).cache()


def typed(records: DataFrame, schema: str) -> DataFrame:
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("v")).select(
        "v.*"
    )


def as_json(rows: DataFrame, key: str) -> DataFrame:
    return rows.select(F.col(key).alias("key"), F.to_json(F.struct("*")).alias("value"))


def topic(rows: DataFrame, place: Place, name: str) -> DataStreamWriter:
    writer = rows.writeStream.format("ottla").option("kafka.bootstrap.servers", place.bootstrap)
    return writer.option("topic", name)


def updates(rows: DataFrame, place: Place, name: str) -> DataStreamWriter:
    """Updated results, which Spark gives to `foreachBatch` only. Named by query and batch, a write
    that is repeated after a crash is left out."""

    def write(batch: DataFrame, number: int) -> None:
        writer = batch.write.format("ottla").option("kafka.bootstrap.servers", place.bootstrap)
        writer = writer.option("topic", name).option("txnAppId", f"demo-{name}")
        writer.option("txnVersion", number).mode("append").save()

    return rows.writeStream.outputMode("update").foreachBatch(write)


def parquet(rows: DataFrame, folder: str) -> DataStreamWriter:
    kept = rows.select("key", "value", "topic", "partition", "offset", "timestamp")
    return kept.writeStream.format("parquet").option("path", folder)


def run(
    place: Place, name: str, writer: DataStreamWriter, every: str = "1 second"
) -> StreamingQuery:
    checkpoint = f"{place.folder}/checkpoints/{name}"
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime=every).start()
    # One after the other: each begins with new Python processes, for which Spark waits 10 s only.
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.05)
    return query
