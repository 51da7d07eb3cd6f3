"""State that all clients of a simulated cluster share: the history they write, and when to end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.errors import ClientError, TransactionFailed, TransactionFatal
from ottla.client.values import AnyRecord
from ottla.protocol.errors import KafkaError
from ottla.sim.checker.history import History
from ottla.sim.cluster.metadata_folders import MetadataFolders
from ottla.sim.cluster.rights import WORKER, sign_in
from ottla.sim.cluster.shape import Shape, TopicShape
from ottla.sim.history import Violation
from ottla.sim.runtime import SimRuntime

PATIENCE: dict[str, Any] = {
    "request_timeout_ms": 3000,
    "default_api_timeout_ms": 15_000,
    "socket_connection_setup_timeout_ms": 2000,
    "reconnect_backoff_max_ms": 500,
    "retry_backoff_max_ms": 500,
    "metadata_max_age_ms": 20_000,
}
"""Client settings in a simulated cluster: short timeouts, so that a minute has many events."""

NAME_HEADER = "name"
"""The header with a record's name, in topics where the key is not the name."""
PAUSE_AFTER_TROUBLE_S = 0.3
FAIR_WAIT_S_MAX = 10.0
"""Bad network conditions alone cause waits of up to four seconds."""


@dataclass
class Work:
    shape: Shape
    now: Callable[[], float]
    folders: MetadataFolders
    history: History = field(default_factory=History)
    tables: History = field(default_factory=History)
    """The history of compacted topics, which keep only the last record of each key."""
    writing: bool = True
    healed_s: float | None = None
    """When the last fault ended, and quotas are no more set but removed."""
    reading: bool = True
    progress: dict[str, float] = field(default_factory=dict)
    """For each client: the time of its last success."""
    troubles: dict[str, int] = field(default_factory=dict)
    """Errors that clients got, by kind: not wrong by themselves, but good to know."""
    is_fair: bool = False
    """True if no fault is injected that would explain an error or a long wait."""
    longest_wait_s: float = 0.0
    too_late: str | None = None
    """The first wait that was too long."""
    refused_workers: str | None = None
    """The first client that was refused what it may do."""
    refusals: int = 0
    """How often somebody without rights was refused."""

    def history_of(self, topic: TopicShape) -> History:
        return self.tables if topic.keys else self.history

    def did(self, client: str) -> None:
        self.progress[client] = self.now()

    def trouble(self, error: BaseException) -> None:
        kind = type(error).__name__
        if isinstance(error, KafkaError):
            kind = error.code.name
        if self.shape.guarded and is_refusal(error) and self.refused_workers is None:
            self.refused_workers = f"a client was refused what it may do: {error!r}"
        self.troubles[kind] = self.troubles.get(kind, 0) + 1

    def waited(self, client: str, what: str, since_s: float) -> None:
        """Note how long a client waited for an answer. Without faults no wait is long."""
        waited_s = self.now() - since_s
        self.longest_wait_s = max(self.longest_wait_s, waited_s)
        if self.is_fair and waited_s > FAIR_WAIT_S_MAX and self.too_late is None:
            self.too_late = f"{client} waited {waited_s:.1f} s for {what} for no reason"

    def refused(self, client: str, error: TransactionFailed | TransactionFatal) -> None:
        """Note a failed transaction. In a cluster without faults no transaction fails."""
        self.trouble(error)
        if self.is_fair:
            raise Violation(f"{client} was told for no reason: {error}")


def is_refusal(error: BaseException) -> bool:
    """True if somebody was told that he has no right to something."""
    return "AUTHORIZATION_FAILED" in repr(error)


def name_of(record: AnyRecord) -> str:
    """Return the name by which the history knows the record."""
    for header, name in record.headers:
        if header == NAME_HEADER and name is not None:
            return name.decode()
    return str(record.key.decode())


class Client:
    """A client program with many lives: each ends by an error, by chance, or with the work."""

    LIFE_S = 15.0
    USER = WORKER
    """The user as whom it signs in, where clients have to."""

    def __init__(self, work: Work, runtime: SimRuntime, name: str) -> None:
        self.work = work
        self.runtime = runtime
        self.chance: random.Random = runtime.random
        self.name = name
        self.life = f"{name}.{runtime.process.boot}.0"
        """The name of this life; records keep their order within it."""

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.work.shape.bootstrap,
            "client_id": self.name,
            "runtime": self.runtime,
            **PATIENCE,
            **(sign_in(self.USER) if self.work.shape.guarded else {}),
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
        """Return True if the call succeeded. The errors a cluster with faults returns are not
        failures of the run."""
        try:
            await call()
        except (ClientError, KafkaError, TimeoutError) as error:
            self.work.trouble(error)
            await asyncio.sleep(PAUSE_AFTER_TROUBLE_S * (0.5 + self.chance.random()))
            return False
        return True

    def lifetime(self) -> float:
        """Return the time at which this life ends unless something ends it before."""
        return self.work.now() + self.LIFE_S * (0.3 + self.chance.random())
