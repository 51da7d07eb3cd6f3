"""`ottla start --nodes N`: a cluster on this machine, each node a child process of the command.

A node that dies while the cluster runs is named with the reason and started again, after a pause
that grows with each death in a row; one that keeps dying is left alone, and the rest goes on. One
that dies before all were ready for the first time ends the command. Nodes that `nodes.properties`
gains or retires meanwhile are started and stopped. Ctrl-C ends the nodes one after
the other, so that each can hand its leaders on; a second Ctrl-C kills them.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.child_node import ChildNode
from ottla.cli.nodes_folder import (
    DECIDED,
    FILE_NAME,
    FolderUnusable,
    NodesFolder,
    prepare,
    read,
    write_settings,
)
from ottla.runtime.os_disk import OsLock

NODES_MAX: Final = 100
STOP_S: Final = 15.0
"""A node gets so long to end by itself."""
SLOW_START_S: Final = 15.0
RESTART_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
LOOK_S: Final = 0.5
"""So often `nodes.properties` is looked at."""
STEADY_S: Final = 60.0
"""A node that has lived so long may die again without being taken for one that keeps dying."""


def start_nodes(
    count: int,
    data: Path,
    address: tuple[str, int],
    given: Mapping[str, str],
    options: Sequence[str],
    started: Callable[[Sequence[str]], object],
) -> int:
    """Run the cluster until Ctrl-C; the exit code. `options` go to every node; `started` is called
    with all addresses once every broker serves clients."""
    host, port = address
    if port and port + count > 65_536:
        raise FolderUnusable(f"{count} nodes from port {port} on: there are only 65535 ports")
    if own := sorted(DECIDED & set(given)):
        raise FolderUnusable(f"with --nodes every node has its own {', '.join(own)}")
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(f"--data: {data} cannot be used: {error.strerror}") from error
    try:
        lock = OsLock(str(data / ".nodes.lock"))
    except BlockingIOError:
        raise FolderUnusable(f"{data} is in use by another `ottla start --nodes`") from None
    try:
        folder = prepare(data, count, port)
        write_settings(folder, host, given)
        places = [f"{host}:{folder.ports[number - 1]}" for number in folder.brokers]
        nodes = Nodes(folder, lambda now: write_settings(now, host, given), options)
        return asyncio.run(nodes.run(lambda: started(places)))
    finally:
        lock.release()


class Restarts:
    """When a node that died is started again."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def after(self, lived_s: float) -> float | None:
        """The pause before the next start; None: no more."""
        self._in_a_row = 1 if lived_s >= STEADY_S else self._in_a_row + 1
        if self._in_a_row > len(RESTART_PAUSES_S):
            return None
        return RESTART_PAUSES_S[self._in_a_row - 1]


class Nodes:
    def __init__(
        self, folder: NodesFolder, rewrite: Callable[[NodesFolder], object], options: Sequence[str]
    ) -> None:
        """`rewrite` writes the settings of all nodes of a folder."""
        self._folder = folder
        self._rewrite = rewrite
        self._options = options
        self._width = len(f"node {folder.count}")
        self._children: dict[int, ChildNode] = {}
        self._keepers: dict[int, asyncio.Task[None]] = {}
        self._stop_asked = asyncio.Event()
        self._failed = asyncio.Event()
        self._were_ready = False
        self._retiring: set[int] = set()
        """Asked to end, to come back as controllers alone or not at all."""

    async def run(self, started: Callable[[], object]) -> int:
        loop = asyncio.get_running_loop()
        for stop in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(stop, self._ask_to_stop)
        for number in self._folder.running:
            self._start(number)
        endings = [asyncio.create_task(one.wait()) for one in (self._stop_asked, self._failed)]
        ready = asyncio.create_task(self._all_ready())
        await asyncio.wait([ready, *endings], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            self._were_ready = True
            started()
            following = asyncio.create_task(self._follow_folder())
            await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            following.cancel()
        for task in (ready, *endings):
            task.cancel()
        await self._end_all()
        clean = all(child.exit_code == 0 for child in self._children.values())
        return 0 if clean and not self._failed.is_set() else 1

    def _child(self, number: int) -> ChildNode:
        file = self._folder.config_file(number)
        return ChildNode(number, file, self._options, self._print)

    def _start(self, number: int) -> None:
        self._children[number] = self._child(number)
        self._keepers[number] = asyncio.create_task(self._keep(number))

    def _print(self, number: int, line: str) -> None:
        print(f"{f'node {number}':<{self._width}} | {line}", file=sys.stderr, flush=True)

    def _ask_to_stop(self) -> None:
        if self._stop_asked.is_set():
            for child in self._children.values():
                child.kill()
        self._stop_asked.set()

    async def _all_ready(self) -> None:
        waiting = {number: child.ready for number, child in self._children.items()}
        while late := [number for number, ready in waiting.items() if not ready.is_set()]:
            try:
                async with asyncio.timeout(SLOW_START_S):
                    for number in late:
                        await waiting[number].wait()
            except TimeoutError:
                late = [number for number in late if not waiting[number].is_set()]
                self._say(f"still waiting for node {', '.join(map(str, late))}")

    # --- keeping them alive ---------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        restarts, loop = Restarts(), asyncio.get_running_loop()
        while True:
            began = loop.time()
            reason = await self._children[number].run()
            if self._stop_asked.is_set() or self._failed.is_set():
                return
            if number in self._retiring:
                if not self._start_again(number):
                    return
                continue
            if not self._were_ready:
                self._say(f"node {number} {reason}; not all nodes had started, so this ends here")
                self._failed.set()
                return
            pause_s = restarts.after(loop.time() - began)
            if pause_s is None:
                self._say(f"node {number} {reason}; it keeps dying and is left alone now")
                self._fail_if_all_are_gone(number)
                return
            self._say(f"node {number} {reason}; starting it again in {pause_s:g} s")
            if await self._stopped_within(pause_s) or not self._start_again(number):
                return

    def _start_again(self, number: int) -> bool:
        """With the settings of now; not if the node has nothing to do any more."""
        self._retiring.discard(number)
        if number in self._folder.running:
            self._children[number] = self._child(number)
            return True
        self._say(f"node {number} has ended for good")
        return False

    async def _follow_folder(self) -> None:
        """Start and stop what `nodes.properties` says now."""
        file = self._folder.path / FILE_NAME
        seen = file.stat().st_mtime_ns
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                changed, before = file.stat().st_mtime_ns, self._folder
                if changed != seen:
                    seen, self._folder = changed, read(before.path)
                    self._rewrite(self._folder)
                    self._change_from(before)
            except (OSError, FolderUnusable) as error:
                self._say(f"{file} cannot be followed: {error}")

    def _change_from(self, before: NodesFolder) -> None:
        for number in sorted(self._folder.retired - before.retired):
            rest = " and only votes from now on" if self._folder.votes(number) else ""
            self._say(f"node {number} retires as a broker{rest}")
            self._retiring.add(number)
            self._children[number].ask_to_end()
        for number in range(before.count + 1, self._folder.count + 1):
            self._say(f"node {number} is new and starts")
            self._start(number)

    async def _stopped_within(self, pause_s: float) -> bool:
        try:
            await asyncio.wait_for(self._stop_asked.wait(), pause_s)
        except TimeoutError:
            return False
        return True

    def _fail_if_all_are_gone(self, number: int) -> None:
        others = [keeper for other, keeper in self._keepers.items() if other != number]
        if all(keeper.done() for keeper in others):
            self._failed.set()

    def _say(self, text: str) -> None:
        print(f"ottla: {text}", file=sys.stderr, flush=True)

    # --- ending them ----------------------------------------------------------------------------

    async def _end_all(self) -> None:
        """One after the other, the last started first. Where they never ran together, there is
        nothing to hand on, and they end at once."""
        if self._were_ready:
            for number in sorted(self._keepers, reverse=True):
                await self._end([number])
        else:
            await self._end(sorted(self._keepers))

    async def _end(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._children[number].ask_to_end()
        keepers = [self._keepers[number] for number in numbers]
        _, late = await asyncio.wait(keepers, timeout=STOP_S)
        if late:
            for number in numbers:
                if not self._keepers[number].done():
                    self._say(f"node {number} did not end within {STOP_S:g} s and is killed")
                    self._children[number].kill()
            await asyncio.wait(keepers)
