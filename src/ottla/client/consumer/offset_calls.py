"""The part of a consumer's face that deals with offsets: where it stands, and going elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.admin.offsets import find_offsets
from ottla.client.consumer import arguments
from ottla.client.consumer.partition_state import EARLIEST, LATEST, UNKNOWN
from ottla.client.network.leaders import all_or_raise
from ottla.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.core import Core
    from ottla.client.consumer.subscriptions import Subscriptions
    from ottla.client.settings.consumer import ConsumerSettings


class OffsetCalls:
    _settings: ConsumerSettings
    _subscriptions: Subscriptions

    def _running(self) -> Core:
        raise NotImplementedError

    def _reading_changed(self) -> None:
        raise NotImplementedError

    # Where it stands

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record that will be handed out; waits until it is known."""
        core = self._running()
        core.check_loop()
        limit_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        state = self._subscriptions.state(arguments.partition(partition))
        return await core.positions.known(state, arguments.timeout_s(limit_ms))

    def lag(self) -> dict[TopicPartition, int]:
        """Records between each position and the end, as last heard from a broker."""
        found: dict[TopicPartition, int] = {}
        for state in self._subscriptions.chosen(()):
            committed = self._settings.is_read_committed
            end = state.last_stable_offset if committed else state.high_watermark
            if end != UNKNOWN and state.has_position:
                found[state.partition] = max(0, end - state.position)
        return found

    # Going elsewhere

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset. What was fetched is dropped; nothing is asked for before the next
        poll, so that an offset the log does not hold shows there."""
        one = arguments.partition(partition)
        at = arguments.offset(one, offset)
        self._subscriptions.seek(one, at.offset, at.leader_epoch)
        self._reading_changed()

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Go to the first record there is; of all assigned partitions, if none is named."""
        self._seek_all(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Go behind the last record; with read_committed, behind the last that is decided."""
        self._seek_all(partitions, LATEST)

    def seek_to_time(self, times: Mapping[TopicPartition, int]) -> None:
        """Go to the first record at or after a time in ms; to the end, if there is none."""
        for one, at in arguments.by_partition(times, "times").items():
            self._subscriptions.reset(one, arguments.time_ms(one, at))
        self._reading_changed()

    def _seek_all(
        self, partitions: Iterable[TopicPartition | Iterable[TopicPartition]], to: int
    ) -> None:
        for state in self._subscriptions.chosen(arguments.flat(partitions)):
            self._subscriptions.reset(state.partition, to)
        self._reading_changed()

    # What logs hold

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time in ms, of any partitions; None: all are older."""
        asked = arguments.by_partition(times, "times")
        found = await self._find({one: arguments.time_ms(one, at) for one, at in asked.items()})
        return {one: None if at.offset == UNKNOWN else at for one, at in found.items()}

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        found = await self._find(dict.fromkeys(arguments.partitions(partitions), EARLIEST))
        return {one: at.offset for one, at in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Behind the last record; with read_committed, behind the last that is decided."""
        found = await self._find(dict.fromkeys(arguments.partitions(partitions), LATEST))
        return {one: at.offset for one, at in found.items()}

    async def _find(
        self, at: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        core = self._running()
        core.check_loop()
        return all_or_raise(await find_offsets(core.cluster, at, self._settings.isolation_level))

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        """The numbers of its partitions; `TopicMissing` if there is none."""
        found = await self._running().cluster.topic(topic)
        return frozenset(partition.index for partition in found.partitions)

    async def topics(self) -> frozenset[str]:
        """All topics that this consumer may see; internal ones only if they are not excluded."""
        cluster = self._running().cluster
        view = await cluster.retrying(lambda: cluster.refresh())
        hidden = self._settings.exclude_internal_topics
        return frozenset(
            name for name, topic in view.topics.items() if not (hidden and topic.internal)
        )
