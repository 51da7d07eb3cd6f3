"""The real runtime: tasks, threads, timers and limits."""

import asyncio
import logging
import resource
import subprocess
import sys
import threading

import pytest

from ottla.runtime.os_runtime import OsRuntime, raise_open_files_limit, run


def test_the_result_and_the_failure_of_thread_work_reach_the_caller() -> None:
    async def main(runtime: OsRuntime) -> None:
        name = await runtime.in_thread(lambda: threading.current_thread().name)
        assert name.startswith("ottla")
        with pytest.raises(ZeroDivisionError):
            await runtime.in_thread(lambda: 1 // 0)

    run(main)


def test_thread_work_starts_before_it_is_awaited() -> None:
    async def main(runtime: OsRuntime) -> None:
        started = threading.Event()
        pending = runtime.in_thread(started.set)
        assert started.wait(5)
        await pending

    run(main)


def test_timers_fire_in_order_and_can_be_cancelled() -> None:
    async def main(runtime: OsRuntime) -> None:
        fired: list[str] = []
        late = asyncio.Event()
        runtime.call_later(0.03, fired.append, "late")
        runtime.call_later(0.04, late.set)
        runtime.call_later(0.01, fired.append, "early")
        runtime.call_later(0.02, fired.append, "never").cancel()
        runtime.call_soon(fired.append, "now")
        before = runtime.clock.now()
        await late.wait()
        assert fired == ["now", "early", "late"]
        assert runtime.clock.now() - before >= 0.025

    run(main)


def test_a_failing_background_task_is_logged_with_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: OsRuntime) -> None:
        async def fail() -> None:
            raise ValueError("broken retention")

        runtime.spawn(fail(), name="retention")
        await asyncio.sleep(0.01)

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "background task retention failed" in caplog.text
    assert "broken retention" in caplog.text


def test_close_cancels_background_tasks_and_waits_for_them() -> None:
    ended: list[str] = []

    async def main(runtime: OsRuntime) -> None:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("cleaned up")

        runtime.spawn(forever(), name="forever")
        await asyncio.sleep(0)

    run(main)
    assert ended == ["cleaned up"]


def test_a_spawned_task_may_close_its_own_runtime() -> None:
    async def main(runtime: OsRuntime) -> None:
        done = asyncio.Event()

        async def stop() -> None:
            await runtime.close()
            done.set()

        runtime.spawn(stop(), name="stop")
        await done.wait()

    run(main)


def test_the_limit_of_open_files_is_raised_to_what_is_allowed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert raise_open_files_limit() > 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_run_uses_uvloop_where_it_is_installed() -> None:
    async def main(runtime: OsRuntime) -> str:
        return type(runtime.loop).__module__

    assert run(main).startswith("uvloop")


def test_a_stop_signal_calls_back_instead_of_killing() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from ottla.runtime.os_runtime import run\n"
        "async def main(runtime):\n"
        "    stopped = asyncio.Event()\n"
        "    runtime.on_stop_signal(stopped.set)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    await stopped.wait()\n"
        "    print('stopped cleanly')\n"
        "run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "stopped cleanly\n"), done.stderr
