"""Finds the names of topics that a coordinator names only by id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from ottla.client.errors import ClientError
from ottla.client.network.cluster import Cluster
from ottla.protocol.errors import KafkaError
from ottla.protocol.uuids import ZERO_UUID

log = logging.getLogger("ottla.client.group")


class NameLookup:
    """Looks in the known metadata, else asks a broker: if the coordinator matches the pattern, a
    member first learns a topic by its id."""

    def __init__(self, cluster: Cluster, found: Callable[[], None]) -> None:
        self._cluster = cluster
        self._found = found
        self._wanted: frozenset[bytes] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def known(self) -> dict[bytes, str]:
        topics = self._cluster.view.topics.values()
        return {one.topic_id: one.name for one in topics if one.topic_id != ZERO_UUID}

    def look_up(self, topic_ids: Iterable[bytes]) -> None:
        """Look up these ids in the background, and call `found` when names have been found."""
        self._wanted = frozenset(topic_ids)
        if self._wanted and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work(), name="topic names")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        pauses = self._cluster.pauses()
        while self._wanted:
            try:
                names = await self._ask(sorted(self._wanted))
            except (ClientError, KafkaError) as error:
                log.debug("the request for names of topics failed: %s", error)
                names = []
            if names:
                await self._learn(names)
            await asyncio.sleep(pauses.next_s(self._cluster.runtime.random))

    async def _ask(self, topic_ids: list[bytes]) -> list[str]:
        from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        connection = await self._cluster.any_broker()
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=one, name=None) for one in topic_ids]
        )
        response = await connection.request(request)
        return [one.name for one in response.topics if not one.error_code and one.name]

    async def _learn(self, names: list[str]) -> None:
        self._cluster.metadata.watch(names)
        try:
            await self._cluster.refresh(names)
        except (ClientError, KafkaError) as error:
            log.debug("the request for metadata of new topics failed: %s", error)
            return
        self._wanted -= self.known().keys()
        self._found()
