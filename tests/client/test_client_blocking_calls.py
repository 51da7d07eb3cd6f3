"""The thread behind the blocking clients: begun, shared, ended, interrupted, forked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ottla.blocking import loop_thread
from ottla.blocking.admin import Admin
from ottla.blocking.call import Call
from ottla.client.errors import IllegalState, NoBrokerReachable


def running() -> bool:
    return any(thread.name == "ottla-blocking" for thread in threading.enumerate())


def test_the_thread_lives_from_the_first_client_to_the_last(bootstrap: str) -> None:
    assert not running()
    with Admin(bootstrap_servers=bootstrap):
        assert running()
        with Admin(bootstrap_servers=bootstrap) as second:
            second.list_topics()
        assert running()
    assert not running()


def test_a_client_that_could_not_start_leaves_no_thread_behind() -> None:
    with pytest.raises(NoBrokerReachable):
        Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=100).start()
    assert not running()


def test_a_client_outside_of_its_life_says_what_to_do(bootstrap: str) -> None:
    admin = Admin(bootstrap_servers=bootstrap)
    with pytest.raises(IllegalState, match=r"with Admin\(\.\.\.\)"):
        admin.list_topics()
    admin.start()
    with pytest.raises(IllegalState, match="started already"):
        admin.start()
    admin.close()
    admin.close()
    with pytest.raises(IllegalState, match="close"):
        admin.list_topics()


def test_several_threads_use_one_client(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(len(admin.describe_cluster().brokers)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [1] * 8


def test_a_callback_that_would_wait_for_itself_is_refused() -> None:
    thread = loop_thread.acquire()

    async def work() -> None:
        thread.call(lambda: asyncio.sleep(0))

    try:
        with pytest.raises(IllegalState, match="would wait for itself"):
            thread.call(work)
    finally:
        loop_thread.release(thread)


def test_work_can_have_functions_run_in_the_thread_that_waits() -> None:
    thread = loop_thread.acquire()
    call: Call[int] = Call(thread.loop)

    async def work() -> int:
        number: int = await call.in_caller(threading.get_ident)
        with pytest.raises(ZeroDivisionError):
            await call.in_caller(lambda: 1 // 0)
        return number

    try:
        assert thread.call(work, call) == threading.get_ident()
    finally:
        loop_thread.release(thread)


def test_ctrl_c_ends_the_work_and_the_wait() -> None:
    thread = loop_thread.acquire()
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            cancelled.set()

    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.call(work)
        assert cancelled.is_set()
    finally:
        timer.join()
        loop_thread.release(thread)


def test_a_call_under_way_when_the_thread_ends_is_told() -> None:
    thread = loop_thread.acquire()
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            thread.call(lambda: asyncio.sleep(60))
        except BaseException as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    loop_thread.release(thread)
    waiting.join(10)
    assert [type(error) for error in outcome] == [IllegalState]


FORK = """
import os, sys
from ottla.blocking.admin import Admin
from ottla.client.errors import IllegalState

with Admin(bootstrap_servers=sys.argv[1]) as admin:
    admin.list_topics()
    child = os.fork()
    if child == 0:
        try:
            admin.list_topics()
        except IllegalState as error:
            assert "fork" in str(error)
        with Admin(bootstrap_servers=sys.argv[1]) as own:
            own.list_topics()
        admin.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    admin.list_topics()
"""


def test_a_forked_child_cannot_use_the_clients_of_its_parent(bootstrap: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, bootstrap], timeout=30, check=False)
    assert done.returncode == 0


def test_a_program_that_closes_nothing_ends_all_the_same(bootstrap: str) -> None:
    program = (
        "import sys; from ottla.blocking.admin import Admin; "
        "admin = Admin(bootstrap_servers=sys.argv[1]); admin.start(); admin.list_topics()"
    )
    done = subprocess.run([sys.executable, "-c", program, bootstrap], timeout=30, check=False)
    assert done.returncode == 0
