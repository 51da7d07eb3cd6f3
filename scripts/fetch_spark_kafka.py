"""Put the jars of Spark's own Kafka connector into the user's cache and print the folder.

A test runs that connector against our broker and the bench measures our data source side by side
with it. Both go on without: where neither Java nor Maven is to be had, this says so and exits
with 1.
"""

from __future__ import annotations

import sys

from maven_jars import JarSet

VERSION = "4.2.0"
"""The newest there is; it runs on Spark 4.3, too."""
JARS = JarSet(
    title=f"Spark's Kafka connector {VERSION}",
    folder=f"spark-kafka-{VERSION}",
    variable="OTTLA_SPARK_KAFKA_LIBS",
    wanted=(
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    # What else they depend on is part of every PySpark.
    alone=True,
)
find, fetch = JARS.find, JARS.fetch

if __name__ == "__main__":
    sys.exit(JARS.main())
