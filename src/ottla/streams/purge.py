"""Deletes records of internal repartition topics after they are read, as Kafka Streams does.

Records that the previous batch read may be deleted: Spark could still run the current batch again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.blocking import Admin
from ottla.client.errors import ClientError
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.spark.client_options import admin_options
from ottla.streams.files import read_text
from ottla.streams.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.streams")

INTERVAL_S = 30.0


class Purge:
    """Deletes the records of `topics` that the query with its checkpoint in `folder` has read; no
    other query reads them."""

    def __init__(self, settings: Settings, folder: str, topics: Iterable[str]) -> None:
        self._settings = settings
        self._folder = folder
        self._topics = set(topics)
        self._next = 0.0

    def before_batch(self, spark: SparkSession, number: int) -> None:
        if not self._topics or number == 0 or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + INTERVAL_S
        text = read_text(spark, f"{self._folder}/offsets/{number - 1}")
        used = used_offsets(text or "", self._topics)
        if not used:
            return
        try:
            with Admin(**admin_options(self._settings.to_spark())) as admin:
                admin.delete_records(used)
        except (ClientError, KafkaError) as error:
            log.warning("Processed records of internal topics could not be deleted yet: %s", error)


def used_offsets(text: str, topics: set[str]) -> dict[TopicPartition, int]:
    """Parse an offsets file of Spark's: a version, settings, then a line for each source."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        offsets = json.loads(line)
        for topic in topics & offsets.keys():
            for number, offset in offsets[topic].items():
                if offset > 0:
                    found[TopicPartition(topic, int(number))] = offset
    return found
