"""Count words with streams on Spark, exactly once, and ask the state for some of them."""

import tempfile
import uuid

from pyspark.sql import functions as F

from ottla.blocking import Admin, Producer
from ottla.spark import spark_session
from ottla.streams import App

BOOTSTRAP = "localhost:9092"
RUN = uuid.uuid4().hex[:8]
LINES = [
    "the log is the database",
    "a stream is a table in motion",
    "a table is a stream at rest",
]


def write_lines() -> None:
    with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        admin.create_topic(f"lines-{RUN}", partitions=2)
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for line in LINES:
            producer.send(f"lines-{RUN}", line.encode())


def word_count() -> App:
    app = App(f"word-count-{RUN}", bootstrap_servers=BOOTSTRAP)
    words = app.stream(f"lines-{RUN}").flat_map_values(lambda r: F.split(F.lower(r.value), r"\W+"))
    words.group_by(lambda r: r.value).count(store="counts").to(f"counts-{RUN}")
    return app


def main() -> None:
    write_lines()
    app = word_count()
    print(app.describe())
    spark = spark_session("word-count", master="local[2]")
    with tempfile.TemporaryDirectory() as checkpoints:
        running = app.run_available(spark, checkpoints=checkpoints)
        counts = {entry.key: entry.value for entry in running.store("counts").all()}
        for word, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:3]:
            print(f"{word}: {count}")
        assert counts["a"] == 4
        assert counts["is"] == 3
    spark.stop()


if __name__ == "__main__":
    main()
