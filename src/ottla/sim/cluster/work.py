"""What all clients of a simulated cluster share: the history they write, and when to end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.values import AnyRecord
from ottla.protocol.errors import KafkaError
from ottla.sim.checker.history import History
from ottla.sim.cluster.metadata_folders import MetadataFolders
from ottla.sim.cluster.shape import Shape, TopicShape
from ottla.sim.runtime import SimRuntime

PATIENCE: dict[str, Any] = {
    "request_timeout_ms": 3000,
    "default_api_timeout_ms": 15_000,
    "socket_connection_setup_timeout_ms": 2000,
    "reconnect_backoff_max_ms": 500,
    "retry_backoff_max_ms": 500,
    "metadata_max_age_ms": 20_000,
}
"""How clients of a simulated cluster are set up: impatient, so that a minute holds many events."""

NAME_HEADER = "name"
"""Where a record has its name of which the key is not."""
PAUSE_AFTER_TROUBLE_S = 0.3


@dataclass
class Work:
    shape: Shape
    now: Callable[[], float]
    folders: MetadataFolders
    history: History = field(default_factory=History)
    tables: History = field(default_factory=History)
    """Of compacted topics, which promise something else: the last record of each key."""
    writing: bool = True
    reading: bool = True
    progress: dict[str, float] = field(default_factory=dict)
    """For each client: when it last got something done."""
    troubles: dict[str, int] = field(default_factory=dict)
    """Errors that clients were told, by kind: nothing wrong by itself, but good to know."""

    def history_of(self, topic: TopicShape) -> History:
        return self.tables if topic.keys else self.history

    def did(self, client: str) -> None:
        self.progress[client] = self.now()

    def trouble(self, error: BaseException) -> None:
        kind = type(error).__name__
        if isinstance(error, KafkaError):
            kind = error.code.name
        self.troubles[kind] = self.troubles.get(kind, 0) + 1


def name_of(record: AnyRecord) -> str:
    """By which the history knows it."""
    for header, name in record.headers:
        if header == NAME_HEADER and name is not None:
            return name.decode()
    return str(record.key.decode())


class Client:
    """One client program with many lives: each ends by an error, by chance, or with the work."""

    LIFE_S = 15.0

    def __init__(self, work: Work, runtime: SimRuntime, name: str) -> None:
        self.work = work
        self.runtime = runtime
        self.chance: random.Random = runtime.random
        self.name = name
        self.life = f"{name}.{runtime.process.boot}.0"
        """The name of this life: what order holds within."""

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.work.shape.bootstrap,
            "client_id": self.name,
            "runtime": self.runtime,
            **PATIENCE,
        }

    def goes_on(self) -> bool:
        raise NotImplementedError

    async def live(self) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        number = 0
        while self.goes_on():
            self.life = f"{self.name}.{self.runtime.process.boot}.{number}"
            number += 1
            await self.attempt(self.live)

    async def attempt(self, call: Callable[[], Awaitable[object]]) -> bool:
        """Whether it worked. What a cluster in trouble tells its clients is not an error here."""
        try:
            await call()
        except (ClientError, KafkaError, TimeoutError) as error:
            self.work.trouble(error)
            await asyncio.sleep(PAUSE_AFTER_TROUBLE_S * (0.5 + self.chance.random()))
            return False
        return True

    def lifetime(self) -> float:
        """When a life that nothing ends is over."""
        return self.work.now() + self.LIFE_S * (0.3 + self.chance.random())
