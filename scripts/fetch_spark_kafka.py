"""Put the jars of Spark's own Kafka connector into the user's cache and print the folder.

A test runs that connector against Ottla's broker, and the bench measures Ottla's data source beside
it. Both also run without the jars: if Java or Maven is missing, this script says so and exits with
1.
"""

from __future__ import annotations

import sys

from maven_jars import JarSet

VERSION = "4.2.0"
"""The newest version; it also runs on Spark 4.3."""
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
    # PySpark contains their other dependencies.
    alone=True,
)
find, fetch = JARS.find, JARS.fetch

if __name__ == "__main__":
    sys.exit(JARS.main())
