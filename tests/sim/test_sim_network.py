"""The simulated network: streams, backpressure, cuts, partitions, death."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from ottla.runtime.disk import FileSlice
from ottla.runtime.network import Socket
from ottla.sim import SimRuntime, World
from ottla.sim.stream import SimSocket


def ready(register: Callable[[Callable[[], None] | None], None]) -> Awaitable[None]:
    future = asyncio.get_running_loop().create_future()

    def happened() -> None:
        register(None)
        if not future.done():
            future.set_result(None)

    register(happened)
    return future


async def receive(sock: Socket, count: int) -> bytes:
    data = bytearray()
    part = memoryview(bytearray(65536))
    while len(data) < count:
        try:
            size = sock.recv_into(part[: count - len(data)])
        except BlockingIOError:
            await ready(sock.on_readable)
            continue
        if size == 0:
            break
        data += part[:size]
    return bytes(data)


async def send(sock: Socket, data: bytes) -> int:
    """How often it had to wait for room."""
    blocked = sent = 0
    while sent < len(data):
        try:
            sent += sock.send([data[sent:]])
        except BlockingIOError:
            blocked += 1
            await ready(sock.on_writable)
    return blocked


async def pair(client: SimRuntime, server: SimRuntime) -> tuple[SimSocket, SimSocket]:
    accepted: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    listener = server.network.listen("", 9092, accepted.set_result)
    sock = await client.network.connect(server.process.host, 9092)
    other = await accepted
    listener.close()
    assert isinstance(sock, SimSocket)
    return sock, other


def story(
    seed: int, main: Callable[[World, SimRuntime, SimRuntime], Coroutine[Any, Any, None]]
) -> World:
    world = World(seed, time_limit_s=1000)

    async def begin() -> None:
        await main(world, world.boot("client"), world.boot("server"))

    world.run(begin())
    return world


@pytest.mark.parametrize("seed", range(10))
def test_a_stream_arrives_whole_in_pieces_with_backpressure(seed: int) -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, other = await pair(client, server)
        assert one.peer == other.local == ("server", 9092)
        assert one.local == other.peer
        data = world.random.randbytes(700_000)
        sending = asyncio.create_task(send(one, data))
        assert await receive(other, len(data)) == data
        assert await sending > 0
        one.close()
        assert await receive(other, 1) == b""

    story(seed, main)


def test_a_reader_that_stops_stops_the_sender() -> None:
    async def main(_world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, _ = await pair(client, server)
        filling = asyncio.create_task(send(one, b"x" * 10_000_000))
        await asyncio.sleep(100)
        assert not filling.done()
        with pytest.raises(BlockingIOError):
            one.send([b"x"])

    story(1, main)


def test_send_file_moves_bytes_of_a_simulated_file() -> None:
    async def main(_world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, other = await pair(client, server)
        file = server.disk.open("/segment", create=True)
        file.write_at(0, [b"0123456789"])
        part = FileSlice(file, 2, 6)
        while part.count:
            sent = other.send_file(part)
            part.offset += sent
            part.count -= sent
        assert await receive(one, 6) == b"234567"
        assert other.send_file(FileSlice(file, 10, 5)) == 0, "the file has ended"

    story(1, main)


def test_nobody_listening_refuses_and_an_unknown_name_is_no_address() -> None:
    async def main(_world: World, client: SimRuntime, server: SimRuntime) -> None:
        with pytest.raises(ConnectionRefusedError):
            await client.network.connect("server", 1)
        with pytest.raises(socket.gaierror):
            await client.network.connect("nowhere", 1)
        server.network.listen("", 5, lambda _: None)
        with pytest.raises(OSError, match="in use"):
            server.network.listen("", 5, lambda _: None)
        with pytest.raises(OSError, match="this is server"):
            server.network.listen("client", 6, lambda _: None)

    story(1, main)


def test_refusals_by_chance_happen_sometimes() -> None:
    outcomes = set()

    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        world.network.weather.refuse_rate = 0.5
        server.network.listen("", 5, lambda _: None)
        for _ in range(20):
            try:
                await client.network.connect("server", 5)
                outcomes.add("accepted")
            except ConnectionRefusedError:
                outcomes.add("refused")

    story(1, main)
    assert outcomes == {"accepted", "refused"}


def test_a_paused_listener_queues_and_a_full_queue_makes_wait() -> None:
    async def main(_world: World, client: SimRuntime, server: SimRuntime) -> None:
        accepted: list[Socket] = []
        listener = server.network.listen("", 5, accepted.append, backlog=1)
        listener.pause()
        await client.network.connect("server", 5)
        second = asyncio.create_task(client.network.connect("server", 5))
        await asyncio.sleep(3)
        assert not accepted
        assert not second.done()
        listener.resume()
        await second
        await asyncio.sleep(1)
        assert len(accepted) == 2

    story(1, main)


def test_closing_over_unread_bytes_resets_the_other_side() -> None:
    async def main(_world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, other = await pair(client, server)
        one.send([b"x"])
        await asyncio.sleep(1)
        other.close()
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            one.recv_into(memoryview(bytearray(1)))
        with pytest.raises(BrokenPipeError):
            one.send([b"x"])

    story(1, main)


def test_sending_to_a_closed_end_is_answered_with_a_reset() -> None:
    async def main(_world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, other = await pair(client, server)
        other.close()
        await asyncio.sleep(1)
        assert one.recv_into(memoryview(bytearray(1))) == 0
        assert one.send([b"into the void"]) > 0
        await asyncio.sleep(1)
        with pytest.raises(BrokenPipeError):
            one.send([b"x"])

    story(1, main)


def test_a_partition_holds_bytes_back_until_it_heals() -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, other = await pair(client, server)
        world.network.partition("client", "server", one_way=True)
        one.send([b"held"])
        other.send([b"back"])
        assert await receive(one, 1) == b"b"
        await asyncio.sleep(5)
        with pytest.raises(BlockingIOError):
            other.recv_into(memoryview(bytearray(9)))
        world.network.heal("client", "server")
        assert await receive(other, 1) == b"h"

    story(1, main)


def test_connecting_through_a_partition_waits_and_then_times_out() -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        server.network.listen("", 5, lambda _: None)
        world.network.partition("client", "server")
        world.loop.call_later(10, world.network.heal)
        await client.network.connect("server", 5)
        assert world.loop.time() > 10
        world.network.partition("client", "server")
        with pytest.raises(TimeoutError):
            await client.network.connect("server", 5)

    story(1, main)


def test_a_paused_network_delays_and_a_cut_resets_both_ends() -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, other = await pair(client, server)
        world.network.pause("server", 3)
        before = world.loop.time()
        one.send([b"x"])
        await receive(other, 1)
        assert world.loop.time() - before >= 3
        assert world.network.cut_connections("client") == 1
        for end in (one, other):
            with pytest.raises(ConnectionResetError):
                end.recv_into(memoryview(bytearray(1)))

    story(1, main)


def test_a_killed_process_closes_its_connections_at_once() -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, _ = await pair(client, server)
        world.crash("server")
        assert await receive(one, 1) == b""
        with pytest.raises(ConnectionRefusedError):
            await client.network.connect("server", 9092)

    story(1, main)


def test_a_machine_without_power_is_silent_and_resets_once_it_is_back() -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        one, _ = await pair(client, server)
        world.crash("server", power_loss=True)
        one.send([b"anyone there?"])
        await asyncio.sleep(30)
        with pytest.raises(BlockingIOError):
            one.recv_into(memoryview(bytearray(1)))
        world.boot("server")
        with pytest.raises(ConnectionResetError):
            await receive(one, 1)

    story(1, main)


async def hear(sock: Socket) -> tuple[bytes, bool]:
    """What arrives until the connection ends, and whether it ended in order."""
    said = b""
    try:
        while byte := await receive(sock, 1):
            said += byte
    except ConnectionResetError:
        return said, False
    return said, True


def test_a_connection_may_be_accepted_twice_and_the_second_comes_from_nobody() -> None:
    async def main(world: World, client: SimRuntime, server: SimRuntime) -> None:
        world.network.ghost_rate = 1.0
        heard: list[asyncio.Task[tuple[bytes, bool]]] = []
        server.network.listen("", 9092, lambda sock: heard.append(asyncio.create_task(hear(sock))))
        for _ in range(20):
            one = await client.network.connect("server", 9092)
            await send(one, b"hello")
            one.close()
        said = await asyncio.gather(*heard)
        assert said.count((b"hello", True)) == 20
        ghosts = [what for what, in_order in said if not in_order]
        assert len(ghosts) == 20
        assert b"" in ghosts
        assert any(ghosts)
        assert all(b"hello".startswith(what) for what in ghosts)

    story(7, main)
