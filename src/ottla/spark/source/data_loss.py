"""Reports records that a query should have read but cannot; by default that ends the query."""

from __future__ import annotations

import logging

from ottla.client.values import TopicPartition
from ottla.spark.source.offsets import EARLIEST, Offsets, show

log = logging.getLogger("ottla.spark")


class DataLoss(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason} Some data may have been lost because they are not available in Kafka any "
            "more; either the data was aged out by Kafka or the topic may have been deleted before "
            "all the data in the topic was processed. If you don't want your streaming query to "
            "fail on such cases, set the source option failOnDataLoss to false: it then goes on "
            "with all that is there."
        )
        self.reason = reason


def report(reason: str, *, fails: bool) -> None:
    if fails:
        raise DataLoss(reason)
    log.warning("%s Some data may have been lost; going on (failOnDataLoss is false).", reason)


def between(start: Offsets, end: Offsets, earliest: Offsets) -> list[str]:
    """Return why records between two positions cannot be read, as far as offsets show. `earliest`
    has the partitions that are read from their beginning."""
    found = []
    # Partitions that were to begin at an end of the log have not been read yet: they count as new.
    if gone := {one for one, begin in start.items() if one not in end and begin >= 0}:
        found.append(f"Partitions {show(gone)} are gone: the topic was deleted.")
    for one in sorted(end):
        if one not in start:
            found += _added(one, earliest)
        elif start[one] > end[one]:
            found.append(
                f"Partition {one}'s offset was changed from {start[one]} to {end[one]}: the topic "
                "was deleted and made anew, or its log was cut off."
            )
    return found


def _added(one: TopicPartition, earliest: Offsets) -> list[str]:
    first = earliest.get(one, EARLIEST)
    if first == EARLIEST:
        return [f"The earliest offset of {one} cannot be found: it was deleted again."]
    if first > 0:
        return [f"Added partition {one} starts from {first} instead of 0."]
    return []
