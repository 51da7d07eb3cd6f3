"""Manages the moves of replicas between the log dirs of this broker."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.throttle import ReplicationThrottle
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.replication.dirs.move import Confirm, DirMove
    from ottla.broker.replication.partition import Partition
    from ottla.broker.storage.dirs.log_dir import LogDir
    from ottla.broker.storage.log import Log
    from ottla.broker.storage.log_manager import LogManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime.runtime import Runtime

TRIES_MAX: Final = 30


class DirMoves:
    """Runs as many moves at a time as `num.replica.alter.log.dirs.threads` says, or as there are
    log dirs; the others wait in a queue."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        manager: LogManager,
        node_id: int,
        confirm: Confirm,
    ) -> None:
        self._confirm = confirm
        self._runtime = runtime
        self._manager = manager
        self._throttle = ReplicationThrottle(node_id, runtime.clock.now)
        self._throttle.measure(
            config["alter.log.dirs.replication.quota.window.num"],
            config["alter.log.dirs.replication.quota.window.size.seconds"],
        )
        self._lanes_max = config["num.replica.alter.log.dirs.threads"] or len(manager.dirs)
        self._lanes = 0
        self._moves: dict[Partition, DirMove] = {}
        self._waiting: deque[DirMove] = deque()
        self._telling = asyncio.Lock()
        """Keeps reports to the controller in order: the last one counts."""
        self._closed = False
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        self._throttle.limit(config["replica.alter.log.dirs.io.max.bytes.per.second"])

    def request(self, partition: Partition, target: LogDir) -> None:
        """Move a partition to `target`; naming its present log dir cancels a move."""
        move = self._moves.get(partition)
        if move is not None and (move.target is not target or not self._is_under_way(move)):
            self.call_off(partition)
        current = partition.usable_log()
        if current.parent_directory != target.path and partition not in self._moves:
            self._begin(partition, self._manager.futures.create(current, target), target)

    def resume(self, partition: Partition) -> None:
        """Continue a move that the last stop of the broker interrupted, if there was one."""
        future = self._manager.futures.get(partition.topic, partition.index)
        target = None if future is None else self._manager.dir_of(future)
        if future is not None and target is not None and partition not in self._moves:
            self._begin(partition, future, target)

    def call_off(self, partition: Partition) -> None:
        """Cancel a move that is no longer wanted, or whose partition is gone."""
        move = self._moves.pop(partition, None)
        if move is None:
            return
        move.called_off = True
        if not move.running:  # otherwise the running move does it
            self._clear_up(move)

    def close(self) -> None:
        """Stop and leave everything as it is; the next start continues."""
        self._closed = True
        self._waiting.clear()
        for move in self._moves.values():
            move.called_off = True

    def _is_under_way(self, move: DirMove) -> bool:
        return move.running or move in self._waiting

    def _begin(self, partition: Partition, future: Log, target: LogDir) -> None:
        # Imported now: most brokers never move a replica.
        from ottla.broker.replication.dirs.move import DirMove

        move = DirMove(
            self._runtime,
            self._manager,
            partition,
            future,
            target,
            self._throttle,
            self._confirm_in_turn,
        )
        self._moves[partition] = move
        self._waiting.append(move)
        if self._lanes < self._lanes_max:
            self._lanes += 1
            self._runtime.spawn(self._work(), name="move-between-dirs")

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._carry_out(self._waiting.popleft())
        finally:
            self._lanes -= 1

    async def _carry_out(self, move: DirMove) -> None:
        if move.called_off:
            return
        done = False
        move.running = True
        try:
            done = await move.run()
        except Exception as error:  # one replica's failure must not stop the others
            move.failed(error)
        finally:
            move.running = False
            self._ended(move, done)

    def _ended(self, move: DirMove, done: bool) -> None:
        if done:
            self._forget(move)
        elif self._closed:
            return
        elif move.called_off:
            self._clear_up(move)
        elif move.future.failure is not None or move.partition.error is not None:
            # A disk failed. If it is that of the log, the copy stays for the next start.
            self._forget(move)
            self._take_back(move)

    def _forget(self, move: DirMove) -> None:
        if self._moves.get(move.partition) is move:
            del self._moves[move.partition]

    def _clear_up(self, move: DirMove) -> None:
        self._manager.futures.drop(move.future)
        self._take_back(move)

    # --- the controller -------------------------------------------------------------------------

    async def _confirm_in_turn(self, partition: Partition, directory_id: bytes) -> bool:
        async with self._telling:
            return await self._confirm(partition, directory_id)

    def _take_back(self, move: DirMove) -> None:
        """Report to the controller that the replica is still where it was."""
        if move.told:
            self._runtime.spawn(self._tell_truth(move.partition), name="take-back-move")

    async def _tell_truth(self, partition: Partition) -> None:
        from ottla.broker.replication.dirs.move import RETRY_S

        for _ in range(TRIES_MAX):
            async with self._telling:
                if (successor := self._moves.get(partition)) is not None:
                    successor.told = True  # its report comes last, whatever the outcome
                    return
                current = partition.log
                log_dir = None if current is None else self._manager.dir_of(current)
                is_gone = partition.error not in (None, ErrorCode.KAFKA_STORAGE_ERROR)
                if self._closed or log_dir is None or is_gone:
                    return
                if await self._confirm(partition, log_dir.id):
                    return
            await asyncio.sleep(RETRY_S)
