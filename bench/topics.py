"""Topics for a measurement, created through the same admin client on both sides."""

from __future__ import annotations

import itertools
import time
import uuid

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Broker

_NUMBERS = itertools.count()


def _admin(broker: Broker) -> AdminClient:
    # Only warnings: it logs every event it drops when it ends.
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 4})


def new_topic(broker: Broker, partitions: int = 1) -> str:
    name = f"bench-{next(_NUMBERS)}-{uuid.uuid4().hex[:6]}"
    create(broker, name, partitions)
    return name


def create(broker: Broker, name: str, partitions: int) -> None:
    """Return once clients see a leader of every partition."""
    admin = _admin(broker)
    admin.create_topics([NewTopic(name, partitions)], request_timeout=60)[name].result(60)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=30).topics[name].partitions
        if len(found) == partitions and all(one.leader >= 0 for one in found.values()):
            return
        time.sleep(0.02)
    raise TimeoutError(f"topic {name} did not get its {partitions} leaders within 60 s")


def delete(broker: Broker, name: str) -> None:
    """Best effort: the folder is removed with the broker anyway."""
    admin = _admin(broker)
    try:
        admin.delete_topics([name])[name].result(30)
    except KafkaException:
        pass
