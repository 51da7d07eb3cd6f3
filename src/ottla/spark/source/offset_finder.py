"""Finds the partitions and where they begin and end; the driver calls it for each batch.

It takes two requests per batch, for metadata and for offsets; with partition.metadata.cache.ttl.ms
one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.client.errors import TopicMissing
from ottla.client.network.metadata import Topic
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.source.limits import AtEnd, AtOffsets, AtTime, AtTimes, Limit
from ottla.spark.source.offsets import EARLIEST, LATEST, Offsets, show
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.source_client import SourceClient

log = logging.getLogger("ottla.spark")

T = TypeVar("T")


class Unsettled(Exception):
    """The cluster is changing: try again."""


class OffsetFinder:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: SourceClient | None = None
        self.topic_ids: dict[str, bytes] = {}
        """Topic ids by name, as last seen."""
        self._partitions: frozenset[TopicPartition] = frozenset()
        self._found_at = 0.0
        self._given_up: set[str] = set()
        """Topics that are gone and are not waited for any more."""

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> SourceClient:
        if self._client is None:
            client = SourceClient(self._options.client, is_first=True)
            client.start()
            self._client = client
        return self._client

    # Partitions

    def partitions(self, *, must_exist: bool = False) -> frozenset[TopicPartition]:
        """Return the partitions to read. With `must_exist`, a missing one that was named is an
        error; otherwise it is left out."""
        ttl_s = self._options.metadata_ttl_ms / 1000
        if must_exist or time.monotonic() - self._found_at > ttl_s or not self._partitions:
            self._partitions = self._settled(lambda last: self._find_partitions(last, must_exist))
            self._found_at = time.monotonic()
        return self._partitions

    def _find_partitions(self, is_last: bool, must_exist: bool) -> frozenset[TopicPartition]:
        choice = self._options.topics
        topics = self._connected().topics(choice.names)
        there = {name: topic for name, topic in topics.items() if _exists(topic)}
        missing = set(choice.names or ()) - there.keys()
        for name in missing & topics.keys():
            _check_allowed(name, topics[name])
        if missing - self._given_up and not is_last:
            raise Unsettled
        if missing and must_exist:
            raise TopicMissing(min(missing))
        self._given_up = missing
        self.topic_ids = {name: topic.topic_id for name, topic in there.items()}
        found = frozenset(
            one
            for name, topic in there.items()
            for part in topic.partitions
            if choice.wants(one := TopicPartition(name, part.index), is_internal=topic.internal)
        )
        if must_exist and (lacking := choice.partitions - found):
            raise TopicMissing(*min(lacking))
        return found

    def _settled(self, look: Callable[[bool], T]) -> T:
        """Return what `look` finds. While the cluster is changing, call it again, as often as
        fetchOffset.numRetries says. Its argument is True on the last call."""
        for _ in range(self._options.offset_attempts - 1):
            try:
                return look(False)
            except (Unsettled, KafkaError) as error:
                log.debug("offsets could not be read, trying again: %r", error)
                time.sleep(self._options.offset_pause_ms / 1000)
        return look(True)

    # Offsets

    def latest(self, known: Offsets | None = None) -> Offsets:
        """Return the ends of partitions. An end before a `known` offset is looked at again: a new
        leader may not know its high watermark yet."""
        return self._settled(lambda last: self._latest(known or {}, last))

    def _latest(self, known: Offsets, is_last: bool) -> Offsets:
        before = self.topic_ids
        partitions = self.partitions()
        found = self._at(dict.fromkeys(partitions, LATEST))
        if not (is_last or partitions == found.keys()):
            raise Unsettled
        for one, end in found.items():
            is_same = before.get(one.topic) == self.topic_ids.get(one.topic)
            if end < known.get(one, 0) and is_same and not is_last:
                raise Unsettled
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where partitions begin; partitions that are gone are left out."""
        wanted = dict.fromkeys(partitions, EARLIEST)
        return self._settled(lambda _: self._at(wanted)) if wanted else {}

    def _at(self, places: Offsets) -> Offsets:
        answers = self._connected().offsets(places) if places else {}
        found: Offsets = {}
        for one, answer in answers.items():
            if not isinstance(answer, KafkaError):
                found[one] = answer
            elif answer.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise answer
        return found

    # Limits

    def places(self, limit: Limit, *, starting: bool) -> Offsets:
        """Return where a query begins or ends; values may still be EARLIEST or LATEST. Values given
        by partition are not changed: `check_given` checks that they are complete."""
        partitions = self.partitions(must_exist=True)
        if isinstance(limit, AtEnd):
            return dict.fromkeys(partitions, limit.place)
        if isinstance(limit, AtOffsets):
            return dict(limit.offsets)
        if isinstance(limit, AtTimes):
            return self._at_times(limit.times, starting)
        assert isinstance(limit, AtTime)
        return self._at_times(dict.fromkeys(partitions, limit.time_ms), starting)

    def check_given(self, limit: Limit, *, starting: bool) -> None:
        """Refuse offsets or times by partition that do not name exactly the existing partitions."""
        given, what = {}, ""
        if isinstance(limit, AtOffsets):
            given, what = limit.offsets, "offsets"
        elif isinstance(limit, AtTimes):
            given, what = limit.times, "timestamps"
        if what:
            _check_same(given, self.partitions(must_exist=True), starting, what)

    def _at_times(self, times: Offsets, starting: bool) -> Offsets:
        found = self._settled(lambda _: self._at(times))
        for one, offset in found.items():
            if offset < 0 and starting and self._options.no_match == "error":
                raise ValueError(
                    f"No offset matched from request of topic-partition {one} and timestamp "
                    f"{times[one]}. Set startingOffsetsByTimestampStrategy to latest to begin "
                    "behind the last record there"
                )
        return {one: LATEST if offset < 0 else offset for one, offset in found.items()}

    def resolved(self, places: Offsets) -> Offsets:
        """Replace every EARLIEST and LATEST by an offset."""
        ends = {one: at for one, at in places.items() if at < 0}
        return places | (self._settled(lambda _: self._at(ends)) if ends else {})


def _exists(topic: Topic) -> bool:
    return bool(topic.partitions) and topic.error_code in (
        ErrorCode.NONE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    )


def _check_allowed(name: str, topic: Topic) -> None:
    """Raise for a topic that the user may not see, be it there or not."""
    code = ErrorCode.of(topic.error_code)
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise KafkaError(code, f"{code.message} Topic {name!r} takes the right to read it.")


def _check_same(
    given: Iterable[TopicPartition], there: Iterable[TopicPartition], starting: bool, what: str
) -> None:
    if set(given) != set(there):
        side = "starting" if starting else "ending"
        raise ValueError(
            f"If {side} {what} are given by partition, you must specify all TopicPartitions. Use "
            "-1 for latest, -2 for earliest, if you don't care. "
            f"Specified: {show(given)} Assigned: {show(there)}"
        )
