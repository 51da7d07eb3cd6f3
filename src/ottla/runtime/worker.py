"""A child process that runs jobs, for work that would hold the interpreter's lock.

Both ends are here. Messages are pickled: both processes run the same code, and no other process has
the pipes. Each side notices when the other is gone: a child without a parent ends at once, since it
must not go on changing files that a new parent may take over.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol

_SIZE = struct.Struct(">I")
CHILD_NICENESS = 10
"""Background work gives way to the broker when both need the processor."""


class WorkerDied(Exception):
    """The child is gone: it was killed, or could not be started."""


class Worker(Protocol):
    def send(self, message: object) -> None: ...

    def receive(self) -> Any:
        """Return the next message. Blocks, so call it in a thread. Raises `WorkerDied`."""
        ...

    def close(self) -> None:
        """Kill it at once. May be called while `receive` waits."""
        ...

    def join(self) -> None:
        """Wait, after `close`, until it is gone. Blocks."""
        ...


class ChildWorker:
    """The parent's end."""

    def __init__(self, module: str) -> None:
        # The child must find the same code as this process.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the parent, which then ends the child
            )
        except OSError as error:
            raise WorkerDied(f"cannot start {module}: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, message)
        except (OSError, ValueError) as error:
            raise WorkerDied(f"the child {self._process.pid} is gone") from error

    def receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            return _read(self._process.stdout)
        except (EOFError, OSError, ValueError) as error:
            raise WorkerDied(f"the child {self._process.pid} is gone") from error

    def close(self) -> None:
        self._process.kill()
        threading.Thread(target=self._reap, daemon=True).start()

    def join(self) -> None:
        self._process.wait()

    def _reap(self) -> None:
        """Wait in a thread, because the event loop must not block."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass


def serve(work: Callable[[Any], Iterator[object]]) -> None:
    """The child's end: do the work for each message and send what it yields.

    After each answer it waits for a message of the parent, so that at most one answer is in flight.
    """
    try:
        os.nice(CHILD_NICENESS)
    except OSError:
        pass
    # a stray print must not mix with the answers
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    inbox: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    while True:
        for answer in work(inbox.get()):
            _write(answers, answer)
            inbox.get()


def pause(seconds: float) -> None:
    """Sleep, for work that was asked to be slow."""
    time.sleep(seconds)


def _listen(inbox: SimpleQueue[Any]) -> None:
    try:
        while True:
            inbox.put(_read(sys.stdin.buffer))
    finally:
        os._exit(0)  # the parent is gone or has closed this process


def _write(pipe: Any, message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(_SIZE.pack(len(data)) + data)
    pipe.flush()


def _read(pipe: Any) -> Any:
    (size,) = _SIZE.unpack(_read_exactly(pipe, _SIZE.size))
    return pickle.loads(_read_exactly(pipe, size))


def _read_exactly(pipe: BinaryIO, count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError
    return data
