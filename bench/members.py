"""Members of classic groups on raw sockets, all in the event loop of one process.

Each does the minimum of a consumer: join with its member id, send the assignments if it is the
leader, send heartbeats, and join again when the group rebalances.
"""

from __future__ import annotations

import asyncio
import time

from bench import coordinator_wire as wire
from bench.brokers import HOST

CONNECT_TIMEOUT_S = 30.0
BEAT_INTERVAL_S = 0.02
RETRY_INTERVAL_S = 0.05


class Connection(asyncio.Protocol):
    """Sends one request at a time; the response comes without its size."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiter: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    async def open(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.create_connection(lambda: self, HOST, port), CONNECT_TIMEOUT_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        size = int.from_bytes(self._received[:4], "big")
        if len(self._received) < 4 + size or len(self._received) < 4:
            return
        answer = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("the broker closed the connection"))

    async def ask(self, frame: bytes) -> bytes:
        """Send a request. There is no timeout here: a scenario has one for all of it."""
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionError("the broker closed the connection")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._waiter

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Member(Connection):
    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group
        self.id = b""
        self.generation = -1
        self.assignment = b""

    async def follow(self) -> None:
        """Take part until the group is stable again; heartbeats tell when to rejoin."""
        while not self.group.stable.is_set():
            if self.generation < 0 or await self.beat():
                await self.enter()
            try:
                await asyncio.wait_for(self.group.stable.wait(), BEAT_INTERVAL_S)
            except TimeoutError:
                pass

    async def beat(self) -> bool:
        """Send a heartbeat; return True if the group rebalances."""
        frame = wire.heartbeat_frame(self.group.name, self.generation, self.id)
        code = wire.parse_error(await self.ask(frame))
        if code not in (0, wire.REBALANCE_IN_PROGRESS):
            raise RuntimeError(f"a heartbeat in {self.group.name} was answered with error {code}")
        return code != 0

    async def enter(self) -> None:
        """Join and sync, again if members came or left in between."""
        while True:
            joined = await self._join()
            shares = self.group.shares(joined.members) if joined.leader == self.id else []
            frame = wire.sync_frame(self.group.name, joined.generation, self.id, shares)
            code, self.assignment = wire.parse_sync(await self.ask(frame))
            if code == 0:
                self.generation = joined.generation
                self.group.note(self)
                return
            if code != wire.REBALANCE_IN_PROGRESS:
                raise RuntimeError(f"a sync of {self.group.name} was answered with error {code}")

    async def introduce(self) -> None:
        """Get a member id, which by itself does not disturb the group."""
        joined = await self._try_join()
        if joined.error != wire.MEMBER_ID_REQUIRED:
            raise RuntimeError(f"a join without an id got error {joined.error}")
        self.id = joined.member

    async def _join(self) -> wire.Joined:
        if not self.id:
            await self.introduce()
        while True:
            joined = await self._try_join()
            if joined.error == 0:
                self.group.first_answer_s = self.group.first_answer_s or time.monotonic()
                return joined
            if joined.error != wire.REBALANCE_IN_PROGRESS:
                raise RuntimeError(f"a join of {self.group.name} got error {joined.error}")

    async def _try_join(self) -> wire.Joined:
        frame = wire.join_frame(self.group.name, self.id, self.group.metadata)
        while True:
            joined = wire.parse_join(await self.ask(frame))
            if joined.error not in wire.NOT_READY:
                return joined
            await asyncio.sleep(RETRY_INTERVAL_S)

    def forget(self) -> None:
        self.id, self.generation, self.assignment = b"", -1, b""


class Group:
    """Stable once every member has an assignment of the same new generation."""

    def __init__(self, name: str, size: int, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.metadata = wire.subscription(topic)
        self.members = [Member(self) for _ in range(size)]
        self.stable = asyncio.Event()
        self.generation = -1
        self.first_answer_s = 0.0

    async def open(self, port: int) -> None:
        for member in self.members:
            await member.open(port)

    async def settle(self) -> None:
        """Let everyone join, or rejoin, until all have an assignment."""
        self.stable.clear()
        self.first_answer_s = 0.0
        async with asyncio.TaskGroup() as tasks:
            for member in self.members:
                tasks.create_task(member.follow())
        owned = {member.assignment for member in self.members}
        if len(owned) != len(self.members) or b"" in owned:
            raise RuntimeError(f"{len(owned)} assignments for {len(self.members)} members")

    def note(self, member: Member) -> None:
        newest = member.generation
        if newest > self.generation and all(one.generation == newest for one in self.members):
            self.generation = newest
            self.stable.set()

    def shares(self, members: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Return an assignment with one partition for each member."""
        return [(name, wire.assignment(self.topic, place)) for place, name in enumerate(members)]

    async def leave(self, members: list[Member]) -> None:
        frame = wire.leave_frame(self.name, [member.id for member in members])
        code = wire.parse_error(await members[0].ask(frame))
        if code:
            raise RuntimeError(f"leaving {self.name} was answered with error {code}")
        for member in members:
            member.forget()

    def close(self) -> None:
        for member in self.members:
            member.close()
