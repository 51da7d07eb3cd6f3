"""A simulated network of named machines: delays, bounded buffers, cuts, partitions, pauses.

A partition or a pause loses nothing by itself: packets wait, because TCP sends again until it gets
through. The kernel of a killed process closes its connections. A machine that lost power sends
nothing until it is back, and then resets connections it does not know. A network that duplicates
connections makes the server accept one twice: the second has no client behind it.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import random
import socket
from collections import deque
from collections.abc import Callable, Collection

from ottla.logs import get_logger
from ottla.runtime.network import LEFT_TO_OS, BufferSizes, Listener, Socket
from ottla.sim.loop import SimLoop
from ottla.sim.process import Process
from ottla.sim.stream import Pipe, SimSocket
from ottla.sim.trace import Trace
from ottla.sim.weather import Weather

log = get_logger("ottla.network")

CONNECT_TIMEOUT_S = 127.0
CONNECT_RETRY_S_MAX = 8.0
GHOST_S = 4.0
"""How long a connection without a client stays, on average."""
FIRST_EPHEMERAL_PORT = 32768
OWN_NAMES = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "")


class Fabric:
    """The wires between all machines, and every connection on them."""

    def __init__(self, loop: SimLoop, chance: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.weather = Weather()
        self.context = contextvars.Context()
        """The network belongs to no process: deliveries go on when a process dies."""
        self.powered: dict[str, bool] = {}
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self.ghost_rate = 0.0
        """How often a connection reaches its listener twice."""
        self._cut: dict[tuple[str, str], None] = {}
        self._paused: dict[str, None] = {}
        self._sockets: dict[int, SimSocket] = {}
        self._pipes: dict[int, Pipe] = {}
        self._births = 0
        self._next_port = FIRST_EPHEMERAL_PORT

    # Faults.

    def partition(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Let nothing pass from `one` to `other`, nor back unless `one_way`, until `heal`."""
        self.trace.add(one, f"{'half ' if one_way else ''}partition from {other}")
        self._cut[one, other] = None
        if not one_way:
            self._cut[other, one] = None

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Heal the pair, or everything."""
        for pair in list(self._cut):
            if one is None or pair in ((one, other), (other, one)):
                del self._cut[pair]
        self.release()

    def pause(self, host: str, seconds: float) -> None:
        """Hold everything to and from a machine for a while."""
        self.trace.add(host, f"network paused for {seconds:.3f} s")
        self._paused[host] = None
        self.loop.call_later(seconds, self._resume, host, context=self.context)

    def _resume(self, host: str) -> None:
        self._paused.pop(host, None)
        self.release()

    def cut_connections(self, host: str, rate: float = 1.0) -> int:
        """Reset connections of `host` at both ends, each with this probability; return how many."""
        count = 0
        for end in list(self._sockets.values()):
            if end.process.host == host and self.chance.random() < rate:
                end.break_off()
                end.out.target.break_off()
                count += 1
        self.trace.add(host, f"{count} connections cut")
        return count

    def holds_back(self, source: str, target: str) -> bool:
        return (
            not self.powered[target]
            or (source, target) in self._cut
            or source in self._paused
            or target in self._paused
        )

    def unreachable(self, source: str, host: str) -> bool:
        return not self.powered.get(host, False) or any(
            pair in self._cut for pair in ((source, host), (host, source))
        )

    def has_connections(self, processes: Collection[Process]) -> bool:
        return any(end.process in processes for end in self._sockets.values())

    def release(self) -> None:
        for pipe in list(self._pipes.values()):
            pipe.schedule()

    # Connections.

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def join(self, client: SimSocket, server: SimSocket) -> None:
        client.out = Pipe(self, client, server)
        server.out = Pipe(self, server, client)
        for end in (client, server):
            self._births += 1
            end.birth = self._births
            self._sockets[end.birth] = end
            self._pipes[end.birth] = end.out

    def haunt(self, listener: SimListener, client: SimSocket) -> None:
        """Let the listener accept the connection a second time. The other end of it sends nothing,
        or only what the client sends first; then it is silent until it is reset."""
        if len(listener.queue) >= listener.backlog:
            return
        host, there = client.process.host, client.peer
        ghost = SimSocket(self, Process(host, 0), (host, self.free_port()), there)
        server = SimSocket(self, listener.process, there, ghost.local)
        self.join(ghost, server)
        self.trace.add(host, f"{host}:{ghost.local[1]} is a ghost at {there[0]}:{there[1]}")
        if self.chance.random() < 0.5:
            client.shadow = ghost
        listener.offer(server)
        stay_s = self.chance.expovariate(1.0) * GHOST_S
        self.loop.call_later(stay_s, ghost.vanish, context=self.context)

    def forget(self, closed: SimSocket) -> None:
        """Drop the connection once both ends are closed."""
        other = closed.out.target
        if not other.closed and other.process.alive:
            return
        for end in (closed, other):
            self._sockets.pop(end.birth, None)
            self._pipes.pop(end.birth, None)

    def process_died(self, process: Process, *, power_loss: bool) -> None:
        for address, listener in list(self.listeners.items()):
            if listener.process is process:
                del self.listeners[address]
                listener.drop_queue()
        if power_loss:
            self.powered[process.host] = False
            for pipe in self._pipes.values():
                if pipe.source.process is process:
                    pipe.drop()
            return
        for end in list(self._sockets.values()):
            if end.process is process:
                end.shut()

    def power_on(self, host: str) -> None:
        self.powered[host] = True
        self.release()


class SimListener:
    def __init__(
        self,
        fabric: Fabric,
        process: Process,
        address: tuple[str, int],
        accepted: Callable[[Socket], None],
        backlog: int,
    ) -> None:
        self.process = process
        self.address = address
        self.backlog = backlog
        self.queue: deque[SimSocket] = deque()
        self._fabric = fabric
        self._key = (process.host, address[1])
        self._accepted = accepted
        self._paused = False
        fabric.listeners[self._key] = self

    def offer(self, sock: SimSocket) -> None:
        self.queue.append(sock)
        self._poll()

    def _poll(self) -> None:
        if self.queue and not self._paused:
            self._fabric.loop.call_soon(self._accept, context=self.process.context)

    def _accept(self) -> None:
        if self._paused or not self.queue:
            return
        sock = self.queue.popleft()
        try:
            self._accepted(sock)
        except Exception:
            log.exception("a new connection from %s:%d could not be served", *sock.peer)
            sock.close()
        self._poll()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._poll()

    def close(self) -> None:
        self.process.check_alive()
        if self._fabric.listeners.get(self._key) is self:
            del self._fabric.listeners[self._key]
        self.drop_queue()

    def drop_queue(self) -> None:
        while self.queue:
            sock = self.queue.popleft()
            sock.out.target.break_off()
            sock.closed = True


class SimNetwork:
    """The network as one process sees it."""

    def __init__(self, fabric: Fabric, process: Process) -> None:
        self._fabric = fabric
        self._process = process

    def host_name(self) -> str:
        return self._process.host

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Socket], None],
        *,
        backlog: int = 50,
        buffers: BufferSizes = LEFT_TO_OS,
    ) -> Listener:
        self._process.check_alive()
        own = self._process.host
        if host not in OWN_NAMES and host != own:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {host}:{port}: this is {own}")
        port = port or self._fabric.free_port()
        if (own, port) in self._fabric.listeners:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {host}:{port}: in use")
        address = (host or "0.0.0.0", port)
        return SimListener(self._fabric, self._process, address, accepted, backlog)

    async def connect(self, host: str, port: int) -> Socket:
        self._process.check_alive()
        fabric = self._fabric
        target = self._process.host if host in OWN_NAMES else host
        if target not in fabric.powered:
            raise socket.gaierror(socket.EAI_NONAME, f"no machine is called {host}")
        await self._reach(target, port)
        await self._travel(target)
        listener = fabric.listeners.get((target, port))
        if listener is None or fabric.chance.random() < fabric.weather.refuse_rate:
            await self._travel(target)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} refused")
        client = self._establish(listener, target, port)
        try:
            await self._travel(target)
        except BaseException:
            client.shut()
            raise
        return client

    def _establish(self, listener: SimListener, target: str, port: int) -> SimSocket:
        fabric = self._fabric
        here, there = (self._process.host, fabric.free_port()), (target, port)
        client = SimSocket(fabric, self._process, here, there)
        server = SimSocket(fabric, listener.process, there, here)
        fabric.join(client, server)
        fabric.trace.add(here[0], f"{here[0]}:{here[1]} connects to {target}:{port}")
        listener.offer(server)
        if fabric.ghost_rate and fabric.chance.random() < fabric.ghost_rate:
            fabric.haunt(listener, client)
        return client

    async def _reach(self, target: str, port: int) -> None:
        """Retry with growing delays while the target does not answer; then give up as TCP does."""
        fabric, own = self._fabric, self._process.host
        give_up_s = fabric.loop.time() + CONNECT_TIMEOUT_S
        delay_s = 1.0
        while fabric.unreachable(own, target) or self._is_full(target, port):
            if fabric.loop.time() > give_up_s:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, CONNECT_RETRY_S_MAX)

    def _is_full(self, target: str, port: int) -> bool:
        listener = self._fabric.listeners.get((target, port))
        return listener is not None and len(listener.queue) >= listener.backlog

    async def _travel(self, target: str) -> None:
        local = target == self._process.host
        await asyncio.sleep(self._fabric.weather.delay_s(self._fabric.chance, local=local))
