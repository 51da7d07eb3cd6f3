"""Members of a group in one event loop: each polls in a task of its own, and remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
from ottla.client.values import TopicPartition

WAIT_S = 20.0

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"]},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "new": {"group_protocol": "consumer"},
}
QUICK = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 200}


class Diary(RebalanceListener):
    """Writes down what a listener is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: Iterable[TopicPartition]) -> None:
        self.events.append((what, sorted(one.partition for one in partitions)))

    def told(self, what: str) -> list[list[int]]:
        return [partitions for name, partitions in self.events if name == what and partitions]


class Member:
    """A consumer that polls all the time, until it is told to stop."""

    def __init__(self, consumer: Consumer, diary: Diary) -> None:
        self.consumer = consumer
        self.diary = diary
        self.values: list[Any] = []
        self.failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def owned(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())

    def go(self) -> None:
        self._task = asyncio.create_task(self._poll())

    async def rest(self) -> None:
        """Stop polling, and stay in the group."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def leave(self) -> None:
        await self.rest()
        await self.consumer.close()

    async def die(self) -> None:
        """As a process does that is killed: without a word."""
        await self.rest()
        core = self.consumer._running()
        core.membership.stop()  # type: ignore[attr-defined]
        core.cluster.close()

    async def _poll(self) -> None:
        try:
            while True:
                for records in (await self.consumer.poll(timeout_ms=100)).values():
                    self.values += [record.value for record in records]
        except Exception as error:
            self.failure = error


class Crew:
    """The members of one test, and what they have in common."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self._options = options
        self.members: list[Member] = []

    def make(self, *topics: str, **options: Any) -> Member:
        diary = Diary()
        settings = {
            "bootstrap_servers": self.bootstrap,
            "group_id": f"group.{self.topic}",
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 300,
            "auto_commit_interval_ms": 100,
            **QUICK,
            **self._options,
            **options,
        }
        if settings.get("group_protocol") == "consumer":
            settings.pop("session_timeout_ms")
            settings.pop("heartbeat_interval_ms")
        consumer = Consumer(**settings)
        if topics != ("",):
            consumer.subscribe(topics or [self.topic], listener=diary)
        member = Member(consumer, diary)
        self.members.append(member)
        return member

    async def join(self, *topics: str, **options: Any) -> Member:
        member = self.make(*topics, **options)
        await member.consumer.start()
        member.go()
        return member

    async def close(self) -> None:
        for member in self.members:
            await member.rest()
        closing = (one.consumer.close(2_000) for one in self.members if one.consumer._core)
        await asyncio.gather(*closing, return_exceptions=True)


@asynccontextmanager
async def crew(bootstrap: str, topic: str, **options: Any) -> Any:
    made = Crew(bootstrap, topic, **options)
    try:
        yield made
    finally:
        await made.close()


async def until(
    condition: Callable[[], object | Awaitable[object]], wait_s: float = WAIT_S
) -> None:
    for _ in range(round(wait_s / 0.02)):
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"it did not come to that within {wait_s} s")


def shared(partitions: int, *members: Member) -> Callable[[], bool]:
    """Whether every partition has exactly one owner, and no member is idle or has failed."""

    def check() -> bool:
        for member in members:
            if member.failure is not None:
                raise member.failure
        owned = sorted(index for member in members for index in member.owned)
        return owned == [*range(partitions)] and all(member.owned for member in members)

    return check


def everything(*members: Member) -> list[int]:
    return sorted(int(value) for member in members for value in member.values)
