"""How far groups are behind the end of their partitions, and ahead of the beginning.

The coordinator of a group has its committed offsets. The ends of a partition are known to whoever
has a replica; of others the leader is asked. Lag in seconds is the age of the first record that a
group has not consumed, and its lead the time between the oldest record and that one: both by the
records' own timestamps, which are read from a replica here. Elsewhere they are not told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.peers.peers import PeerError
from ottla.logs import get_logger
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.records.reader import iter_records
from ottla.runtime.pace import in_slices

if TYPE_CHECKING:
    from ottla.broker.coordinator.group_shard import GroupShard
    from ottla.broker.replication.partition import Partition
    from ottla.node import Node
    from ottla.runtime.disk import FileSlice

log = get_logger("ottla.metrics")

ASK_MS: Final = 2_000
_LATEST: Final = -1
_EARLIEST: Final = -2
_CONSUMER: Final = -1
_VERSION: Final = 7
READS_MAX: Final = 1_000
"""The most timestamps that are read for one page; the rest is read for later ones."""
READ_BYTES_MAX: Final = 16 * 1024 * 1024
REMEMBERED_MAX: Final = 20_000
OPENED_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes that a batch may open to; of larger ones the timestamp is not told."""

Place = tuple[str, int]
"""A topic and a partition."""


Record = tuple[bytes, int, int]
"""The id of a topic, a partition and an offset."""


class Committed(NamedTuple):
    group: str
    place: Place
    offset: int


class Ends(NamedTuple):
    start: int
    end: int
    """The high watermark."""


class Position(NamedTuple):
    """The committed offset of a group for a partition, and how far it is from both ends."""

    group: str
    place: Place
    offset: int
    ends: Ends | None
    """None if the leader did not say."""
    lag_s: float | None
    lead_s: float | None


class GroupState(NamedTuple):
    group: str
    kind: str
    state: str
    members: int


class LagReader:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._timestamps: dict[Record, int] = {}
        """A record never changes its timestamp."""

    def groups(self) -> Iterator[GroupState]:
        for shard in self._shards():
            for group in list(shard.groups.values()):
                members = getattr(group, "members", ())
                yield GroupState(group.group_id, group.kind, str(group.state.value), len(members))

    async def positions(self) -> list[Position]:
        runtime = self._node.runtime
        committed = await in_slices(runtime, self._committed())
        ends, absent = await in_slices(runtime, self._ends_here(committed))
        if absent:
            ends |= await self._asked(absent)
        wanted = await in_slices(runtime, self._unread(committed, ends))
        if wanted:
            self._timestamps |= await runtime.in_thread(_read_all, wanted)
        return await in_slices(runtime, self._positions(committed, ends))

    def _committed(self) -> Generator[None, None, list[Committed]]:
        found = []
        for shard in self._shards():
            for group_id in list(shard.groups):
                for topic, offsets in list(shard.offsets.group(group_id).items()):
                    for index, offset in list(offsets.items()):
                        found.append(Committed(group_id, (topic, index), offset.offset))
                    yield
        return found

    def _ends_here(
        self, committed: list[Committed]
    ) -> Generator[None, None, tuple[dict[Place, Ends], set[Place]]]:
        """Return the ends of partitions with a replica here, and the other partitions."""
        ends: dict[Place, Ends] = {}
        absent: set[Place] = set()
        for _, place, _ in committed:
            hosted = self._hosted(place)
            if hosted is None or hosted.log is None:
                absent.add(place)
            else:
                ends[place] = Ends(hosted.log.log_start_offset, hosted.high_watermark)
            yield
        return ends, absent

    def _positions(
        self, committed: list[Committed], ends: dict[Place, Ends]
    ) -> Generator[None, None, list[Position]]:
        now_ms = self._node.runtime.clock.wall_ms()
        found = []
        for group, place, offset in committed:
            known = ends.get(place)
            lag_s, lead_s = (None, None)
            if known is not None:
                lag_s, lead_s = self._times(self._hosted(place), offset, known, now_ms)
            found.append(Position(group, place, offset, known, lag_s, lead_s))
            yield
        return found

    def _hosted(self, place: Place) -> Partition | None:
        topic = self._node.broker.services.replicas.topics.get(place[0])
        return None if topic is None else topic.partitions.get(place[1])

    def _shards(self) -> list[GroupShard]:
        try:
            return list(self._node.broker.services.coordinators.group_shards())
        except KafkaError:  # they are being loaded
            return []

    # --- the ends of partitions that have no replica here ---------------------------------------

    async def _asked(self, places: Iterable[Place]) -> dict[Place, Ends]:
        """Ask the leaders; who does not answer is left out."""
        image = self._node.metadata.image
        by_leader: dict[int, list[Place]] = {}
        for topic, index in places:
            known = image.partition(topic, index)
            if known is not None and known.leader in image.brokers:
                by_leader.setdefault(known.leader, []).append((topic, index))
        asked = (self._ask(leader, wanted) for leader, wanted in by_leader.items())
        found: dict[Place, Ends] = {}
        for answer in await asyncio.gather(*asked):
            found |= answer
        return found

    async def _ask(self, leader: int, wanted: list[Place]) -> dict[Place, Ends]:
        listener = self._node.config.inter_broker_listener_name
        endpoint = self._node.metadata.image.brokers[leader].endpoints.get(listener)
        if endpoint is None:
            return {}
        offsets: dict[int, dict[Place, int]] = {_EARLIEST: {}, _LATEST: {}}
        for timestamp, found in offsets.items():
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for topic, index in wanted:
                asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                topics.setdefault(topic, []).append(asked)
            request = ListOffsetsRequest(
                replica_id=_CONSUMER,
                topics=[
                    ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()
                ],
            )
            try:
                response = await self._node.peers.post(
                    endpoint.host,
                    endpoint.port,
                    request,
                    timeout_ms=ASK_MS,
                    version=_VERSION,
                    lane="metrics",
                )
            except PeerError as error:
                log.debug("a leader did not tell offsets", broker=leader, reason=str(error))
                return {}
            for answered in response.topics:
                for partition in answered.partitions:
                    if not partition.error_code:
                        found[answered.name, partition.partition_index] = partition.offset
        return {
            place: Ends(start, offsets[_LATEST][place])
            for place, start in offsets[_EARLIEST].items()
            if place in offsets[_LATEST]
        }

    # --- timestamps -----------------------------------------------------------------------------

    def _unread(
        self, committed: list[Committed], ends: dict[Place, Ends]
    ) -> Generator[None, None, dict[Record, FileSlice]]:
        """Return the batches of the records whose timestamps are needed and not known yet."""
        if len(self._timestamps) > REMEMBERED_MAX:
            self._timestamps.clear()
        wanted: dict[Record, FileSlice] = {}
        for _, place, offset in committed:
            known, hosted = ends.get(place), self._hosted(place)
            if known is not None and hosted is not None:
                for needed in (offset, known.start):
                    key = (hosted.topic_id, hosted.index, needed)
                    if known.start <= needed < known.end and key not in self._timestamps:
                        self._want(wanted, key, hosted)
            if len(wanted) >= READS_MAX:
                break
            yield
        return wanted

    def _want(self, wanted: dict[Record, FileSlice], key: Record, hosted: Partition) -> None:
        try:
            batch = hosted.read(key[2], 1, min_one=True)
        except KafkaError:  # it was removed, or its disk failed
            return
        if batch is not None:
            wanted[key] = batch

    def _times(
        self, hosted: Partition | None, offset: int, ends: Ends, now_ms: int
    ) -> tuple[float | None, float | None]:
        """Return lag and lead in seconds, as far as they are known."""
        is_at_end = offset >= ends.end
        partition = (b"", 0) if hosted is None else (hosted.topic_id, hosted.index)
        stamp = now_ms if is_at_end else self._timestamps.get((*partition, offset))
        if stamp is None:
            return None, None
        lag_s = 0.0 if is_at_end else max(0.0, (now_ms - stamp) / 1000)
        if ends.start >= ends.end:
            return lag_s, 0.0
        oldest = self._timestamps.get((*partition, ends.start))
        return lag_s, None if oldest is None else max(0.0, (stamp - oldest) / 1000)


def _read_all(wanted: dict[Record, FileSlice]) -> dict[Record, int]:
    """Read timestamps, in a thread. What cannot be read is left out."""
    found = {}
    left = READ_BYTES_MAX
    for key, part in wanted.items():
        left -= len(part)
        if left < 0:
            break
        try:
            timestamp = _timestamp_in(part.read(), key[2])
        except (KafkaError, OSError, ValueError):  # damaged, or its file was closed meanwhile
            continue
        if timestamp is not None:
            found[key] = timestamp
    return found


def _timestamp_in(batch: bytes, offset: int) -> int | None:
    """Return the timestamp of a record, or of the next one if compaction has removed it."""
    for record in iter_records(batch, OPENED_BYTES_MAX):
        if record.offset >= offset:
            return record.timestamp
    return None
