"""A TCP proxy that does to connections what networks do: cuts, silence, delays, trickles.

It runs on a thread of its own, so that any client can be led through it, whatever loop or language
it has. To send the clients of a broker through it, open the proxy first and let the broker
advertise its port:

    with FaultProxy() as proxy:
        broker = fresh_broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"})
        proxy.target = ("127.0.0.1", broker.port)

Every method may be called from any thread and has taken effect when it returns. Faults stay until
`heal`, except `cut`, which is over at once, and `cut_after`, which is spent by one cut.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

T = TypeVar("T")

Direction = Literal["to_broker", "to_client"]
DIRECTIONS: tuple[Direction, Direction] = ("to_broker", "to_client")
HOST = "127.0.0.1"
CHUNK_BYTES = 64 << 10
CALL_TIMEOUT_S = 10.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Faults:
    """What goes wrong now."""

    stalled: set[Direction] = field(default_factory=set)
    delay_s: float = 0.0
    piece_bytes: int = CHUNK_BYTES
    piece_pause_s: float = 0.0
    cut_after: dict[Direction, int] = field(default_factory=dict)


class Link:
    """One connection of a client, and the one to the broker behind it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.left: dict[Direction, int] = {}
        """How many bytes may still pass before it is cut."""

    def close(self, *, reset: bool) -> None:
        for writer in self.writers:
            if reset:
                sock = writer.get_extra_info("socket")
                if sock.fileno() >= 0:  # else its peer has closed it meanwhile
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                writer.transport.abort()
            else:
                writer.close()


class FaultProxy:
    def __init__(self, target: tuple[str, int] | None = None) -> None:
        self.target = target
        """Where connections are led to; without one they are accepted and hear nothing."""
        self.port = 0
        self.accepted_count = 0
        self.passed_bytes: dict[Direction, int] = dict.fromkeys(DIRECTIONS, 0)
        self._faults = Faults()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._call(self._prepare)
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CALL_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def open_count(self) -> int:
        return len(self._links)

    # Faults

    def cut(self, *, reset: bool = True) -> int:
        """End every connection now; how many there were."""
        return self._call(lambda: self._cut_all(reset))

    def cut_after(self, count: int, direction: Direction = "to_client") -> None:
        """End the first connection over which `count` more bytes have passed, behind the last of
        them: the peer gets exactly these."""

        def arm() -> None:
            self._faults.cut_after = {direction: count}
            for link in self._links:
                link.left = dict(self._faults.cut_after)

        self._call(arm)

    def stall(self, *directions: Direction) -> None:
        """Let nothing pass (both ways unless told), and keep connections open: a black hole."""
        self._call(lambda: self._faults.stalled.update(directions or DIRECTIONS))

    def delay(self, seconds: float) -> None:
        """Hold every chunk back for so long, both ways."""
        self._call(lambda: setattr(self._faults, "delay_s", seconds))

    def dribble(self, piece_bytes: int, pause_s: float) -> None:
        """Pass so many bytes at a time, with a pause after each."""

        def slow_down() -> None:
            self._faults.piece_bytes = piece_bytes
            self._faults.piece_pause_s = pause_s

        self._call(slow_down)

    def refuse(self) -> None:
        """Refuse new connections; those there are stay."""
        self._call(self._stop_listening)

    def accept(self) -> None:
        """Take new connections again, on the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(CALL_TIMEOUT_S)

    def heal(self) -> None:
        """From now on everything passes; connections that were ended stay so."""

        def mend() -> None:
            self._faults = Faults()
            for link in self._links:
                link.left = {}
            self._changed()

        self._call(mend)
        self.accept()

    # On the proxy's own thread

    def _call(self, action: Callable[[], T]) -> T:
        async def run() -> T:
            return action()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CALL_TIMEOUT_S)

    def _prepare(self) -> None:
        self._healed = asyncio.Event()

    def _changed(self) -> None:
        self._healed.set()
        self._healed = asyncio.Event()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accepted, HOST, self.port, reuse_address=True
            )
            self.port = self._server.sockets[0].getsockname()[1]

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _end(self) -> None:
        self._stop_listening()
        self._cut_all(reset=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cut_all(self, reset: bool) -> int:
        links = list(self._links)
        self._links.clear()
        for link in links:
            link.close(reset=reset)
        return len(links)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted_count += 1
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer)
        link.left = dict(self._faults.cut_after)
        self._links.add(link)
        try:
            if self.target is None:
                await asyncio.Event().wait()
                return
            broker_reader, broker_writer = await asyncio.open_connection(*self.target)
            link.writers.append(broker_writer)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(link, reader, broker_writer, "to_broker"))
                pumps.create_task(self._pump(link, broker_reader, writer, "to_client"))
        except* (OSError, asyncio.IncompleteReadError):
            pass  # an end was closed: so is the other
        finally:
            self._links.discard(link)
            link.close(reset=False)

    async def _pump(
        self,
        link: Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Direction,
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            if self._faults.delay_s:
                await asyncio.sleep(self._faults.delay_s)
            for piece in _pieces(chunk, self._faults.piece_bytes):
                while direction in self._faults.stalled:
                    await self._healed.wait()
                await self._pass(link, piece, writer, direction)
                if self._faults.piece_pause_s:
                    await asyncio.sleep(self._faults.piece_pause_s)
        raise ConnectionResetError  # ends the other pump too

    async def _pass(
        self, link: Link, piece: bytes, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        left = link.left.get(direction, len(piece))
        writer.write(piece[:left])
        await writer.drain()
        self.passed_bytes[direction] += min(left, len(piece))
        if direction not in link.left:
            return
        link.left[direction] = left - len(piece)
        if link.left[direction] <= 0:
            self._faults.cut_after = {}
            for other in self._links:
                other.left = {}
            raise ConnectionResetError("cut as told")


def _pieces(chunk: bytes, size: int) -> Iterator[bytes]:
    return (chunk[start : start + size] for start in range(0, len(chunk), size))
