"""What the families of administration share: the cluster, and the way a change takes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.errors import IllegalState
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster
    from ottla.client.network.connection import Connection

T = TypeVar("T")

Outcome = dict[TopicPartition, KafkaError | None]
"""For each partition None, or why it was refused."""


class AdminPart:
    """A family of calls. `Admin` is all of them over one cluster."""

    _joined: Cluster | None = None

    @property
    def _cluster(self) -> Cluster:
        if self._joined is None:
            raise IllegalState(
                "this Admin is not connected: write `async with Admin(...) as admin`, or await "
                "start() first and use it before close()"
            )
        return self._joined

    async def _change(self, make: Callable[[Connection], Any]) -> Any:
        """Send a change to the controller. Asked again only where it has surely not been made."""

        async def attempt() -> Any:
            connection = await self._cluster.controller()
            response = await connection.request(make(connection))
            if ErrorCode.NOT_CONTROLLER in _codes(response):
                await self._cluster.refresh(())
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self._cluster.retrying(attempt, resend=False)

    async def _ask_any(self, request: Any) -> Any:
        """A question that every broker can answer."""

        async def attempt() -> Any:
            return await (await self._cluster.any_broker()).request(request)

        return await self._cluster.retrying(attempt)

    async def _of_each_broker(
        self, ask: Callable[[int], Awaitable[list[T]]], brokers: Iterable[int] | None = None
    ) -> list[T]:
        """What all brokers, or the named ones, answer together."""
        await self._cluster.retrying(lambda: self._cluster.refresh(()))
        nodes = sorted(self._cluster.view.brokers if brokers is None else set(brokers))

        async def ask_one(node_id: int) -> list[T]:
            return await self._cluster.retrying(lambda: ask(node_id))

        parts = await asyncio.gather(*(ask_one(node_id) for node_id in nodes))
        return [found for part in parts for found in part]


def _codes(response: Any) -> set[int]:
    """The error codes of a response and of its items, whatever it calls them."""
    found = {getattr(response, "error_code", 0)}
    for name in ("topics", "responses", "results", "entries"):
        found |= {getattr(item, "error_code", 0) for item in getattr(response, name, None) or ()}
    return found


def by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """The same values, in the order that requests name them: topic, then partition."""
    topics: dict[str, dict[int, T]] = {}
    for (topic, index), value in sorted(values.items(), key=lambda item: item[0]):
        topics.setdefault(topic, {})[index] = value
    return topics


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    return {topic: list(parts) for topic, parts in by_topic(dict.fromkeys(partitions, 0)).items()}
