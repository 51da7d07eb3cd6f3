"""Put Apache Kafka's jars into the user's cache and print the folder.

The tests read Ottla's files with Kafka's own tools, and the bench measures side by side with Kafka.
Both also run without the jars: if Java or Maven is missing, this script says so and exits with 1.
"""

from __future__ import annotations

import sys

from maven_jars import JarSet

VERSION = "4.3.0"
JARS = JarSet(
    title=f"Apache Kafka {VERSION}",
    folder=f"kafka-{VERSION}/libs",
    variable="OTTLA_KAFKA_LIBS",
    wanted=(
        f"org.apache.kafka:kafka_2.13:{VERSION}",
        f"org.apache.kafka:kafka-tools:{VERSION}",
        "org.slf4j:slf4j-nop:1.7.36",
    ),
)
find, fetch = JARS.find, JARS.fetch

if __name__ == "__main__":
    sys.exit(JARS.main())
