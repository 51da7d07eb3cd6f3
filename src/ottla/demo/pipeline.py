"""The pipeline that `ottla demo` runs on Spark, and a pattern to copy.

    payments ─┬─> payments-dead-letters: what is no payment
              ├─> payments-clean: each once, with its customer ─┬─> merchant-minutes: totals
              │                                                 └─> fraud-alerts
              └─> an archive in Parquet: everything as it came

Topics are written exactly once, so Spark can be killed at any time: it continues where it was, and
readers of committed records see nothing twice and miss nothing.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.demo import rules
from ottla.demo.fraud import ALERT, REMEMBERED, FraudRules
from ottla.demo.intake import PAYMENT, SEEN, Intake
from ottla.streams import App, Bytes, Json, String, Tumbling, Values

CUSTOMER = "name string, typical_cents bigint"
Payment, Customer, CleanPayment = Json(PAYMENT), Json(CUSTOMER), Json(f"{PAYMENT}, {CUSTOMER}")


def payments_app(bootstrap: str) -> App:
    app = App("card-payments", bootstrap_servers=bootstrap, dead_letters=rules.DEAD_LETTERS)

    customers = app.global_table(rules.CUSTOMERS, value=Customer)
    events = app.stream(rules.PAYMENTS, value=Bytes())
    payments = events.process(Intake, Payment, stores=[Values("intake", Json(SEEN))])
    payments.join(
        customers,
        lambda payment, customer: {**payment, **customer},
        on=lambda r: r.value.customer,
        value=CleanPayment,
    ).to(rules.CLEAN)

    clean = app.stream(
        rules.CLEAN, value=CleanPayment, timestamp=lambda r: F.timestamp_millis(r.value.at_ms)
    )
    by_merchant = clean.group_by(lambda r: r.value.merchant, String())
    by_minute = by_merchant.windowed_by(Tumbling("1 minute", grace=f"{rules.MEMORY_MINUTES} min"))
    by_minute.agg(
        lambda r: {"payments": F.count("*"), "amount_cents": F.sum(r.value.amount_cents)},
        store="minutes",
    ).to(rules.MERCHANT_MINUTES)

    alerts = clean.process(FraudRules, Json(ALERT), stores=[Values("fraud", Json(REMEMBERED))])
    alerts.to(rules.ALERTS)
    return app


def archive(spark: SparkSession, bootstrap: str, folder: Path) -> StreamingQuery:
    """Write the topic to files, with plain Spark."""
    events = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    events = events.option("subscribe", rules.PAYMENTS).option("startingOffsets", "earliest")
    files = events.load().writeStream.format("parquet").option("path", str(folder / "archive"))
    files = files.option("checkpointLocation", str(folder / "checkpoints" / "archive"))
    return files.queryName("archive").trigger(processingTime="3 seconds").start()
