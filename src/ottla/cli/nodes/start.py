"""`ottla start --nodes N`: a cluster on this machine, each node a child process of the command.

A node that dies while the cluster runs is reported with the reason and started again, after a pause
that grows with each death in a row; a node that was ready for some seconds begins a new row. A node
that keeps dying is left stopped, and the rest goes on.
If a node dies before all were ready for the first time, the command ends. Nodes that are added to
`nodes.properties` or retired there meanwhile are started and stopped. Ctrl-C ends the nodes one
after the other, so that each can hand its leaders over while there is a majority of controllers; a
second Ctrl-C kills them. The end of the terminal (SIGHUP) ends them as Ctrl-C does, unless the
command runs under `nohup`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.nodes.child_node import ChildNode
from ottla.cli.nodes.folder import (
    DECIDED,
    FILE_NAME,
    FolderUnusable,
    NodesFolder,
    prepare,
    read,
    write_settings,
)
from ottla.runtime.os_disk import OsLock
from ottla.runtime.os_runtime import stop_signals

NODES_MAX: Final = 100
STOP_S: Final = 15.0
"""How long a node may take to end by itself."""
SLOW_START_S: Final = 15.0
RESTART_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
LOOK_S: Final = 0.5
"""How often `nodes.properties` is checked."""
HEALTHY_S: Final = 10.0
"""A node that was ready for this long does not count as one that keeps dying. A fault at start, or
in the first records that a broker replays or fetches, shows earlier."""


def start_nodes(
    count: int,
    data: Path,
    address: tuple[str, int],
    given: Mapping[str, str],
    options_of: Callable[[int], Sequence[str]],
    started: Callable[[Sequence[str]], object],
) -> int:
    """Run the cluster until Ctrl-C; return the exit code. `options_of` returns what a node is given
    by its number; `started` is called with all addresses once every broker serves clients."""
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
        nodes = Nodes(folder, lambda now: write_settings(now, host, given), options_of)
        return asyncio.run(nodes.run(lambda: started(places)))
    finally:
        lock.release()


class Restarts:
    """Decides when a node that died is started again."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def after(self, healthy_s: float) -> float | None:
        """Return the pause before the next start of a node that was ready for so long; None: do not
        start again."""
        self._in_a_row = 1 if healthy_s >= HEALTHY_S else self._in_a_row + 1
        if self._in_a_row > len(RESTART_PAUSES_S):
            return None
        return RESTART_PAUSES_S[self._in_a_row - 1]


class Nodes:
    def __init__(
        self,
        folder: NodesFolder,
        rewrite: Callable[[NodesFolder], object],
        options_of: Callable[[int], Sequence[str]],
    ) -> None:
        """`rewrite` writes the settings of all nodes of a folder."""
        self._folder = folder
        self._rewrite = rewrite
        self._options_of = options_of
        self._width = len(f"node {folder.count}")
        self._children: dict[int, ChildNode] = {}
        self._keepers: dict[int, asyncio.Task[None]] = {}
        self._stop_asked = asyncio.Event()
        self._failed = asyncio.Event()
        self._were_ready = False
        self._retiring: set[int] = set()
        """Nodes that were asked to end; they come back as controllers only, or not at all."""

    async def run(self, started: Callable[[], object]) -> int:
        loop = asyncio.get_running_loop()
        for signal_number in stop_signals():
            loop.add_signal_handler(signal_number, self._ask_to_stop, signal_number)
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
        clean = all(child.ended_properly for child in self._children.values())
        return 0 if clean and not self._failed.is_set() else 1

    def _child(self, number: int) -> ChildNode:
        file = self._folder.config_file(number)
        now = asyncio.get_running_loop().time
        return ChildNode(number, file, self._options_of(number), self._print, now)

    def _start(self, number: int) -> None:
        self._children[number] = self._child(number)
        self._keepers[number] = asyncio.create_task(self._keep(number))

    def _print(self, number: int, line: str) -> None:
        _print(f"{f'node {number}':<{self._width}} | {line}")

    def _ask_to_stop(self, number: signal.Signals) -> None:
        # A terminal that closes may send SIGHUP twice, from its shell and from the kernel.
        if self._stop_asked.is_set() and number != signal.SIGHUP:
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
        restarts = Restarts()
        while True:
            child = self._children[number]
            reason = await child.run()
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
            pause_s = restarts.after(child.healthy_s)
            if pause_s is None:
                self._say(f"node {number} {reason}; it keeps dying and is left alone now")
                self._fail_if_all_are_gone(number)
                return
            self._say(f"node {number} {reason}; starting it again in {pause_s:g} s")
            if await self._stopped_within(pause_s) or not self._start_again(number):
                return

    def _start_again(self, number: int) -> bool:
        """Start the node with its present settings; return False if it has no role any more."""
        self._retiring.discard(number)
        if number in self._folder.running:
            self._children[number] = self._child(number)
            return True
        self._say(f"node {number} has ended for good")
        return False

    async def _follow_folder(self) -> None:
        """Start and stop nodes when `nodes.properties` changes."""
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
        _print(f"ottla: {text}")

    # --- ending them ----------------------------------------------------------------------------

    async def _end_all(self) -> None:
        """End the nodes one after the other, the last started first. Nodes without a majority
        of controllers to hand leadership over with end at once, as do all if they never ran
        together."""
        left = sorted(self._keepers)
        while self._were_ready and self._have_majority(left):
            await self._end_while_others_lead(left)
            left.pop()
        await self._end(left, alone=True)

    async def _end_while_others_lead(self, numbers: Sequence[int]) -> None:
        """End the last of them. The others may be ended meanwhile by someone else: once they have
        no majority, it need not wait for them."""
        ending = asyncio.ensure_future(self._end(numbers[-1:]))
        while not ending.done() and self._have_majority(numbers):
            others = [self._keepers[n] for n in numbers[:-1] if not self._keepers[n].done()]
            await asyncio.wait([ending, *others], return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            self._children[numbers[-1]].ask_to_end(alone=True)
        await ending

    def _have_majority(self, numbers: Sequence[int]) -> bool:
        """True if most controllers still run without the node that would be ended next."""
        alive = [n for n in numbers[:-1] if self._folder.votes(n) and not self._keepers[n].done()]
        return 2 * len(alive) > len(self._folder.controller_ports)

    async def _end(self, numbers: Sequence[int], *, alone: bool = False) -> None:
        for number in numbers:
            self._children[number].ask_to_end(alone=alone)
        keepers = [self._keepers[number] for number in numbers]
        _, late = await asyncio.wait(keepers, timeout=STOP_S)
        if late:
            for number in numbers:
                if not self._keepers[number].done():
                    self._say(f"node {number} did not end within {STOP_S:g} s and is killed")
                    self._children[number].kill()
            await asyncio.wait(keepers)


def _print(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        pass  # The terminal or the reader of a pipe is gone: the nodes are ended all the same.
