"""Moves a replica to another log dir of its broker.

The copy is made of whole batches, a piece at a time in a thread, while the log is still written,
read, truncated and deleted from. When it has caught up it is flushed and the controller is told.
When the controller has recorded it and the copy has caught up again, it replaces the log within one
turn of the event loop, so that there are never two logs or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.follower_state import truncation_offset
from ottla.broker.replication.following import checked_batches
from ottla.broker.replication.throttle import ReplicationThrottle
from ottla.broker.storage.errors import LogDirFailure, LogFailed
from ottla.broker.storage.log import Log
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.broker.storage.dirs.log_dir import LogDir
    from ottla.broker.storage.log_manager import LogManager
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.replication")

PIECE_BYTES: Final = 256 * 1024
LAST_PIECE_BYTES: Final = 64 * 1024
"""At most this much is copied in the loop itself: otherwise the copy of a log that is written all
the time would never catch up."""
FLUSHES_ASIDE: Final = 3
"""How often the copy is flushed in a thread before the swap; the next time it is flushed in the
loop."""
RETRY_S: Final = 1.0
LOOK_S: Final = 0.25
"""How soon a waiting move notices that it was cancelled."""
EPOCH_MAX: Final = 2**31 - 1

Confirm = Callable[["Partition", bytes], Awaitable[bool]]
"""Asks the controller to record the log dir of a replica; True if it did."""


class DirMove:
    def __init__(
        self,
        runtime: Runtime,
        manager: LogManager,
        partition: Partition,
        future: Log,
        target: LogDir,
        throttle: ReplicationThrottle,
        confirm: Confirm,
    ) -> None:
        self.partition = partition
        self.future = future
        self.target = target
        self.running = False
        self.called_off = False
        self.told = False
        """True if the controller may believe that the replica is in the target log dir."""
        self._runtime = runtime
        self._manager = manager
        self._throttle = throttle
        self._confirm = confirm
        self._noted = False
        self._flushes = 0

    @property
    def _goes_on(self) -> bool:
        return not self.called_off and self.partition.error is None and self.future.failure is None

    @property
    def _current(self) -> Log:
        current = self.partition.log
        assert current is not None
        return current

    async def run(self) -> bool:
        """Run the move; True if it is done. Raises the error that makes it impossible."""
        if self._goes_on:
            # The checkpoint there must not apply an earlier copy's recovery point to this one.
            await self._manager.housekeeping.checkpoint_dir(self.target)
            self._manager.cleaner.abort(self._current)
        if self._goes_on:
            self._find_common_end()
        while self._goes_on:
            pause_s = self._throttle.pause_s()
            if pause_s > 0:
                await asyncio.sleep(min(pause_s, LOOK_S))
                continue
            if await self._copied_piece():
                continue
            if await self._prepared() and self._caught_up():
                self._swap()
                await self._settle()
                return True
        return False

    # --- copying --------------------------------------------------------------------------------

    def _find_common_end(self) -> None:
        """Truncate a copy from before the start of the broker to where it and the log agree."""
        current, future = self._current, self.future
        while (latest := future.latest_epoch) >= 0:
            epoch, end_offset = current.epoch_end_offset(latest)
            future.truncate_to(truncation_offset(future, epoch, max(0, end_offset)))
            if epoch == latest:
                break
            if future.latest_epoch >= latest:
                future.truncate_fully_and_start_at(current.log_start_offset)
        if future.end_offset > current.end_offset:
            future.truncate_to(current.end_offset)
        self._manager.housekeeping.checkpoint_soon(future)

    def _keep_up(self) -> None:
        """Remove from the copy what was removed from the log, at its end and at its start."""
        current, future = self._current, self.future
        future.update_config(current.config)
        cut = self._manager.futures.take_cut(future)
        if cut is not None and cut < future.end_offset:
            future.truncate_to(cut)
            self._manager.housekeeping.checkpoint_soon(future)
        if future.end_offset < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset)
        future.increment_log_start_offset(min(current.log_start_offset, future.end_offset))

    async def _copied_piece(self) -> bool:
        """Copy the next piece; True if there was one."""
        self._keep_up()
        current, future = self._current, self.future
        if future.end_offset >= current.end_offset:
            return False
        piece = current.read(future.end_offset, PIECE_BYTES, current.end_offset)
        if piece is None:
            future.skip_to(current.end_offset)
            return True
        if self._noted and piece.reaches_limit and piece.count <= LAST_PIECE_BYTES:
            return False  # the rest is copied with the swap
        generation = current.generation
        data = await self._runtime.in_thread(piece.read)
        if self._goes_on and current.generation == generation and self._current is current:
            await self._runtime.in_thread(self._append, data, self._runtime.clock.wall_ms())
            self._throttle.record(len(data))
        return True

    def _append(self, data: bytes, now_ms: int) -> None:
        """Append a piece: in a thread, or in the loop for the last one."""
        found = checked_batches(data, EPOCH_MAX)
        if not found:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"no whole batch at offset {self.future.end_offset} of {self.partition}",
            )
        self.future.append_copied(found, now_ms, lambda: self._goes_on)

    # --- the swap -------------------------------------------------------------------------------

    async def _prepared(self) -> bool:
        """True if everything is ready for the swap, except the last few records."""
        if not self._noted:
            await self._runtime.in_thread(self.future.flush)
            if not self._goes_on:
                return False
            self.told = True
            self._noted = await self._confirm(self.partition, self.target.id)
            if not self._noted:
                await asyncio.sleep(RETRY_S)
            return False
        if self._manager.cleaner.is_cleaning(self._current):
            await asyncio.sleep(LOOK_S)
            return False
        if self._is_less_safe and self._flushes < FLUSHES_ASIDE:
            self._flushes += 1
            await self._runtime.in_thread(self.future.flush)
            return False
        return self._goes_on

    @property
    def _is_less_safe(self) -> bool:
        """True if a power failure could take records from the copy that are flushed in the log."""
        return self.future.recovery_point < self._current.recovery_point

    def _caught_up(self) -> bool:
        """Copy the rest, if it is not too much; without a pause, so that nothing is added
        meanwhile."""
        self._keep_up()
        current, future = self._current, self.future
        while future.end_offset < current.end_offset:
            piece = current.read(future.end_offset, LAST_PIECE_BYTES, current.end_offset)
            if piece is None or not piece.reaches_limit:
                return False
            self._append(piece.read(), self._runtime.clock.wall_ms())
        if self._is_less_safe:
            future.flush(current.recovery_point)
        return not self._is_less_safe

    def _swap(self) -> None:
        current, future = self._current, self.future
        self._manager.swap(current, future)
        self.partition.log = future  # a copy, with the same records
        log.info(
            "moved to another data folder",
            partition=str(self.partition),
            before=current.parent_directory,
            now=future.parent_directory,
        )

    async def _settle(self) -> None:
        """Make the two renames durable, the new name first."""
        for path in (self.target.path, *(d.path for d in self._manager.dirs.online())):
            try:
                await self._runtime.in_thread(self._runtime.disk.sync_dir, path)
            except OSError as error:
                self._manager.fail_dir(path, error)

    def failed(self, error: Exception) -> None:
        """Handle an error of `run`."""
        if isinstance(error, LogDirFailure):
            self._manager.fail_dir(error.directory, error.cause)
        elif not (isinstance(error, LogFailed) or self.future.failure is not None):
            log.error(
                "a replica cannot be moved to another data folder; ask for it again to try again",
                partition=str(self.partition),
                folder=self.target.path,
                exc_info=error,
            )
