"""Crashes, pauses and replays of whole simulated programs."""

import asyncio
import os
import subprocess
import sys

import pytest

from ottla.runtime.ambient import new_runtime
from ottla.runtime.os_runtime import OsRuntime
from ottla.sim import ProcessDied, SimRuntime, SimulatedCrash, World


def test_no_line_of_a_killed_process_runs_any_more() -> None:
    world = World(1)
    ran: list[str] = []

    async def program(runtime: SimRuntime) -> None:
        runtime.call_later(10, ran.append, "timer")
        try:
            await asyncio.gather(asyncio.sleep(5), runtime.in_thread(len, ""))
            await asyncio.sleep(5)
        finally:
            ran.append("cleanup")

    async def main() -> None:
        runtime = world.boot("a")
        running = runtime.run(program(runtime))
        await asyncio.sleep(6)
        world.crash("a")
        with pytest.raises(ProcessDied):
            await running
        await asyncio.sleep(60)
        assert ran == []

    world.run(main())


def test_a_crash_inside_an_operation_unwinds_without_any_effect() -> None:
    world = World(1)
    caught: list[BaseException] = []

    async def program(runtime: SimRuntime) -> None:
        file = runtime.disk.open("/a", create=True)
        try:
            for number in range(100):
                file.write_at(number, [b"x"])
                await asyncio.sleep(0.01)
        except Exception as error:
            caught.append(error)
        finally:
            file.truncate(0)

    async def main() -> None:
        runtime = world.boot("a")
        world.crash_within("a", 10)
        with pytest.raises(ProcessDied):
            await runtime.run(program(runtime))
        assert not caught
        assert world.boot("a").disk.size("/a") in (9, 10)

    world.run(main())


def test_a_dead_runtime_starts_nothing() -> None:
    world = World(1)

    async def main() -> None:
        runtime = world.boot("a")
        with pytest.raises(RuntimeError, match="running"):
            world.boot("a")
        world.crash("a")
        with pytest.raises(SimulatedCrash):
            runtime.call_soon(print)
        with pytest.raises(SimulatedCrash):
            runtime.spawn(asyncio.sleep(1), name="late")
        with pytest.raises(SimulatedCrash):
            runtime.in_thread(print)

    world.run(main())


def test_a_frozen_process_goes_on_where_it_stopped() -> None:
    world = World(1)
    ticks: list[float] = []

    async def program() -> None:
        for _ in range(10):
            await asyncio.sleep(1)
            ticks.append(world.loop.time())

    async def main() -> None:
        runtime = world.boot("a")
        running = runtime.run(program())
        await asyncio.sleep(3.5)
        world.pause("a", 20)
        await asyncio.sleep(15)
        assert len(ticks) == 3
        await running

    world.run(main())
    assert ticks[3] >= 23.5


def test_a_failed_background_task_is_kept_for_the_checker() -> None:
    world = World(1)

    async def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        runtime = world.boot("a")
        runtime.spawn(fail(), name="retention")
        await asyncio.sleep(1)
        assert runtime.failures == ["background task retention failed: ValueError('broken')"]
        await runtime.close()

    world.run(main())


PROGRAM = """
import asyncio, sys
from ottla.runtime.ambient import new_runtime
from ottla.runtime.os_runtime import OsRuntime
from ottla.sim import ProcessDied, World

async def serve(runtime):
    names = {f"client-{n}" for n in range(3)}
    file = runtime.disk.open("/log", create=True)
    position = file.size()
    sockets = []

    def accepted(sock):
        def readable():
            nonlocal position
            buffer = bytearray(1000)
            try:
                count = sock.recv_into(memoryview(buffer))
            except OSError:
                return
            if count == 0:
                return sock.close()
            position += file.write_at(position, [buffer[:count]])
            sockets.append(sock)
        sock.on_readable(readable)

    runtime.network.listen("", 1, accepted)
    while True:
        await runtime.in_thread(file.sync)
        await asyncio.sleep(runtime.random.random() / 100)

async def client(runtime):
    while True:
        try:
            sock = await runtime.network.connect("server", 1)
            for _ in range(runtime.random.randint(1, 30)):
                sock.send([runtime.random.randbytes(300)])
                await asyncio.sleep(runtime.random.random() / 50)
            sock.close()
        except OSError:
            await asyncio.sleep(0.05)

async def main(world):
    for n in range(3):
        runtime = world.boot(f"client-{n}")
        runtime.spawn(client(runtime), name="client")
    for _ in range(6):
        runtime = world.boot("server")
        running = runtime.run(serve(runtime))
        await asyncio.sleep(world.random.random())
        world.crash("server", power_loss=world.random.random() < 0.5)
        try:
            await running
        except ProcessDied:
            pass

def digest(seed):
    world = World(seed)
    world.run(main(world))
    assert world.trace.count > 500, world.trace.count
    return world.trace.digest()
"""


def digest(seed: int) -> str:
    space: dict[str, object] = {}
    exec(PROGRAM, space)
    result = space["digest"](seed)  # type: ignore[operator]
    assert isinstance(result, str)
    return result


def test_the_same_seed_gives_the_identical_trace_and_another_seed_another() -> None:
    assert digest(11) == digest(11)
    assert digest(11) != digest(12)


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_trace_is_the_same_in_another_interpreter(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + "\nprint(digest(11))"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest(11)


def test_a_client_that_is_given_no_runtime_finds_the_machine_it_runs_on() -> None:
    world = World(1)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="needs a machine to run on"):
            new_runtime()
        machine = world.boot("a")

        async def program() -> None:
            found = new_runtime()
            assert isinstance(found, SimRuntime)
            assert found is not machine
            assert found.process is machine.process
            await found.close()

        await machine.run(program())

    world.run(main())


def test_a_client_outside_of_a_simulation_gets_the_real_world() -> None:
    async def main() -> None:
        found = new_runtime()
        assert isinstance(found, OsRuntime)
        await found.close()

    asyncio.run(main())
