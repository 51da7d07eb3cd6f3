"""A simulated TCP connection: two sockets and, for each direction, a pipe that keeps order."""

from __future__ import annotations

import errno
import os
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.buffers import Buffer
from ottla.runtime.disk import FileSlice
from ottla.sim.loop import SimHandle
from ottla.sim.process import Process

if TYPE_CHECKING:
    from ottla.sim.network import Fabric


class Taken(NamedTuple):
    """The receiver's program has read this many bytes: the sender's buffer has room for more."""

    byte_count: int


class End(NamedTuple):
    """The sender closed in order."""


class Reset(NamedTuple):
    """The connection is gone, with all unread bytes."""


Packet = bytes | Taken | End | Reset


class Readiness:
    """A level-triggered callback: called once per loop turn while its condition holds."""

    def __init__(self, socket: SimSocket, holds: Callable[[], bool]) -> None:
        self._holds = holds
        self._callback: Callable[[], None] | None = None
        self._due = False
        loop = socket.fabric.loop
        self._handle = SimHandle(self._fire, (), loop, socket.process.context)
        self._run_soon = loop.run_soon

    def watch(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback
        self.poll()

    def poll(self) -> None:
        if self._callback is not None and not self._due and self._holds():
            self._due = True
            self._run_soon(self._handle)

    def _fire(self) -> None:
        self._due = False
        if self._callback is not None and self._holds():
            self._callback()
        self.poll()


class SimSocket:
    """One end of a connection. Its send buffer holds the bytes that the other end's program has not
    read yet."""

    def __init__(
        self, fabric: Fabric, process: Process, local: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        self.fabric = fabric
        self.process = process
        self.local = local
        self.peer = peer
        self.out: Pipe
        self.shadow: SimSocket | None = None
        """A ghost that repeats the first thing this end sends."""
        self.birth = 0
        self.closed = False
        self.reset = False
        self.ended = False
        weather = fabric.weather
        self._capacity = fabric.chance.randint(weather.buffer_bytes_min, weather.buffer_bytes_max)
        self._untaken = 0
        self._taken = 0
        self._inbox = bytearray()
        self._readable = Readiness(self, self._can_read)
        self._writable = Readiness(self, self._can_write)

    # Calls of programs.

    def recv_into(self, buffer: memoryview) -> int:
        self._check()
        if self._inbox:
            count = min(len(buffer), len(self._inbox))
            count = self.fabric.weather.part_of(count, self.fabric.chance)
            buffer[:count] = self._inbox[:count]
            del self._inbox[:count]
            self._took(count)
            return count
        if self.reset:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        if self.ended:
            return 0
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _took(self, count: int) -> None:
        """Tell the sender how much was read, but only when it matters: the unreported bytes are
        always fewer than a buffer that counts as writable has free."""
        self._taken += count
        if self._taken * 6 >= self.out.target._capacity:
            self.out.push(Taken(self._taken))
            self._taken = 0

    def send(self, buffers: Sequence[Buffer], more: bool = False) -> int:
        room = self._room()
        return self._send(b"".join(buffers)[:room])

    def send_file(self, part: FileSlice) -> int:
        room = self._room()
        data = part.file.read_at(part.offset, min(part.count, room))
        return self._send(data)

    def _room(self) -> int:
        self._check()
        if self.reset:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if not self._can_write():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self._capacity - self._untaken

    def _send(self, data: bytes) -> int:
        if not data:
            return 0
        count = self.fabric.weather.part_of(len(data), self.fabric.chance)
        self._untaken += count
        self.out.push(data[:count])
        if self.shadow is not None:
            shadow, self.shadow = self.shadow, None
            shadow.repeat(data[:count])
        return count

    def repeat(self, data: bytes) -> None:
        """Send what another socket sent, or the first part of it."""
        if not (self.closed or self.reset):
            self.out.push(data[: self.fabric.weather.part_of(len(data), self.fabric.chance)])

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        self.process.check_alive()
        self._readable.watch(None if self.closed else callback)

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self.process.check_alive()
        self._writable.watch(None if self.closed else callback)

    def close(self) -> None:
        self.process.check_alive()
        self.shut()

    def shut(self) -> None:
        """Close as the kernel does, for a live program or for one that died."""
        if self.closed:
            return
        self._readable.watch(None)
        self._writable.watch(None)
        self.closed = True
        if not self.reset:
            # Closing over unread bytes is not an orderly end: TCP answers it with a reset.
            self.out.push(Reset() if self._inbox else End())
        self._inbox.clear()
        self.fabric.forget(self)

    def vanish(self) -> None:
        """Reset the connection from this end, whatever was sent."""
        if not self.closed:
            self.closed = True
            self._inbox.clear()
            if not self.reset:
                self.out.push(Reset())
            self.fabric.forget(self)

    # Calls of the network.

    def arrive(self, packet: Packet) -> None:
        if isinstance(packet, Taken):
            self._untaken -= packet.byte_count
            self._writable.poll()
        elif isinstance(packet, Reset):
            self.break_off()
        elif self.closed:
            self.out.push(Reset())
        elif isinstance(packet, bytes):
            self._inbox += packet
            self._readable.poll()
        else:
            self.ended = True
            self._readable.poll()

    def break_off(self) -> None:
        self.reset = True
        self._inbox.clear()
        self._readable.poll()
        self._writable.poll()

    def _check(self) -> None:
        self.process.check_alive()
        if self.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _can_read(self) -> bool:
        return bool(self._inbox) or self.ended or self.reset

    def _can_write(self) -> bool:
        """True when a good part of the buffer is free, as kernels decide it."""
        return self.reset or self._untaken * 3 <= self._capacity * 2

    def __repr__(self) -> str:
        return f"SimSocket(local={self.local}, peer={self.peer})"


class Pipe:
    """One direction of a connection: packets arrive in the order sent, each after its own delay."""

    def __init__(self, fabric: Fabric, source: SimSocket, target: SimSocket) -> None:
        self.source = source
        self.target = target
        self._fabric = fabric
        self._packets: deque[Packet] = deque()
        self._arrival_s = 0.0
        self._due = False
        self._handle = SimHandle(self._deliver, (), fabric.loop, fabric.context)
        here, there = source.local, target.local
        self._is_local = here[0] == there[0]
        self._way = f"{here[0]}:{here[1]} > {there[0]}:{there[1]}"

    def push(self, packet: Packet) -> None:
        self._packets.append(packet)
        self.schedule()

    def drop(self) -> None:
        """Drop all packets that have not arrived: the sending machine lost power."""
        self._packets.clear()

    def schedule(self) -> None:
        if self._due or not self._packets:
            return
        fabric = self._fabric
        if fabric.holds_back(self.source.process.host, self.target.process.host):
            return  # TCP retries; the fabric calls this again when packets may pass
        self._due = True
        packet = self._packets[0]
        size = len(packet) if isinstance(packet, bytes) else 40
        travel_s = fabric.weather.delay_s(fabric.chance, local=self._is_local)
        self._arrival_s = max(self._arrival_s, fabric.loop.time() + travel_s)
        self._arrival_s += size / fabric.weather.bandwidth_bytes_s
        fabric.loop.run_at(self._arrival_s, self._handle)

    def _deliver(self) -> None:
        self._due = False
        source, target = self.source.process.host, self.target.process.host
        if self._packets and not self._fabric.holds_back(source, target):
            packet = self._packets.popleft()
            self._trace_packet(packet)
            self._hand_over(packet)
        self.schedule()

    def _hand_over(self, packet: Packet) -> None:
        if self.target.process.alive or self.target.closed:
            self.target.arrive(packet)
        elif not isinstance(packet, Reset):
            # The machine came back from a power loss and knows nothing of this connection.
            self.source.break_off()

    def _trace_packet(self, packet: Packet) -> None:
        if isinstance(packet, bytes):
            what = f"data {len(packet)} crc {zlib.crc32(packet):08x}"
        else:
            what = type(packet).__name__.lower()
        self._fabric.trace.add(self.target.process.host, f"{self._way} {what}")
