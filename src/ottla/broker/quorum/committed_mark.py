"""The file `committed-offset` beside the metadata log: the offset up to which it is known to be
committed.

Records that are committed and on this disk never disappear. A log that ends before that offset is
damaged, and a controller that continued with it could make the cluster forget acknowledged records.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from ottla.logs import get_logger
from ottla.runtime.disk import Disk
from ottla.runtime.runtime import Runtime

log = get_logger("ottla.quorum")

FILE_NAME: Final = "committed-offset"
VERSION: Final = 0
INTERVAL_S: Final = 10.0
"""The time between writes while the node runs; closing writes once more."""


def read(disk: Disk, directory: str) -> int:
    """Return the offset after the last record known to be committed; 0 if nothing is known."""
    path = f"{directory}/{FILE_NAME}"
    try:
        return int(json.loads(disk.read_bytes(path))["committedOffset"])
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError) as error:
        log.warning("%s is damaged (%r) and is written anew", path, error)
        return 0


def write(disk: Disk, directory: str, offset: int) -> None:
    content = {"version": VERSION, "committedOffset": offset}
    disk.replace_bytes(f"{directory}/{FILE_NAME}", json.dumps(content).encode())


class CommittedMark:
    """Writes the file from time to time. Belongs to the loop."""

    def __init__(self, runtime: Runtime, directory: str) -> None:
        self._runtime = runtime
        self._directory = directory
        self._written = 0
        self._next_at_s = 0.0
        self._writing: asyncio.Future[None] | None = None

    def advance(self, offset: int) -> None:
        """Note that everything before `offset` is committed and on disk here."""
        now = self._runtime.clock.now()
        if offset > self._written and now >= self._next_at_s:
            self._next_at_s = now + INTERVAL_S  # the next call may come before the task begins
            self._runtime.spawn(self._write(offset), name="committed-offset")

    async def close(self, offset: int) -> None:
        await self._write(offset)

    async def _write(self, offset: int) -> None:
        while self._writing is not None:
            await self._writing
        if offset <= self._written:
            return
        done = self._writing = asyncio.get_running_loop().create_future()
        try:
            await self._runtime.in_thread(write, self._runtime.disk, self._directory, offset)
            self._written = offset
        except OSError as error:
            log.warning("%s/%s was not written: %s", self._directory, FILE_NAME, error)
        finally:
            self._writing = None
            done.set_result(None)
