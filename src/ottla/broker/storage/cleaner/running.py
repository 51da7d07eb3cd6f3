"""Runs a job in a child process or in a thread. The owner asks for one outcome after another.

Threads share the interpreter's lock with the event loop: they are for simulations, and for systems
where no process can be started.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from ottla.broker.storage.cleaner.compaction import Step, attempt
from ottla.broker.storage.cleaner.job import CleaningJob, Failed, Outcome, Progress, RunLimits
from ottla.broker.storage.cleaner.pacing import Pacer
from ottla.broker.storage.cleaner.worker import MODULE
from ottla.logs import get_logger
from ottla.runtime.runtime import Runtime
from ottla.runtime.worker import Worker, WorkerDied

logger = get_logger("ottla.cleaner")


class RunStopped(Exception):
    """`stop` was called, or the child process died."""


class Run(Protocol):
    async def following(self) -> Outcome:
        """Return the next outcome. Raises `RunStopped`."""
        ...

    def stop(self) -> None: ...


class ThreadRun:
    """A run in threads: between two steps the loop may stop it or delay it."""

    def __init__(self, runtime: Runtime, job: CleaningJob, limits: RunLimits) -> None:
        self._runtime = runtime
        self._pacer = Pacer(limits.bytes_per_second)
        self._steps = attempt(runtime.disk, job)
        self._stopped = False

    async def following(self) -> Outcome:
        while not self._stopped:
            step: Step | Failed = await self._runtime.in_thread(next, self._steps)
            if not isinstance(step, Progress):
                return step
            delay_s = self._pacer.delay_s(step.byte_count, self._runtime.clock.now())
            if delay_s > 0:
                await asyncio.sleep(delay_s)
        raise RunStopped

    def stop(self) -> None:
        self._stopped = True


class ChildRun:
    def __init__(self, runtime: Runtime, worker: Worker) -> None:
        self._runtime = runtime
        self._worker = worker

    async def following(self) -> Outcome:
        try:
            outcome: Outcome = await self._runtime.in_thread(self._worker.receive)
            self._worker.send(None)
        except WorkerDied as error:
            raise RunStopped(str(error)) from error
        return outcome

    def stop(self) -> None:
        self._worker.close()


class Workplace:
    """Runs the jobs of one lane one after the other. A child process is kept for the next job."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._worker: Worker | None = None
        self._has_processes = True

    async def begin(self, job: CleaningJob, limits: RunLimits) -> Run:
        if self._worker is None and self._has_processes:
            self._worker = await self._start_worker()
        if self._worker is None:
            return ThreadRun(self._runtime, job, limits)
        try:
            await self._runtime.in_thread(self._worker.send, (job, limits))
        except WorkerDied as error:
            self._worker = None
            raise RunStopped(str(error)) from error
        return ChildRun(self._runtime, self._worker)

    async def _start_worker(self) -> Worker | None:
        try:
            worker = await self._runtime.start_worker(MODULE)
        except WorkerDied as error:
            logger.warning("Compacting in a thread, which slows the broker down: %s", error)
            worker = None
        self._has_processes = worker is not None
        return worker

    def clear(self) -> None:
        """End the child process and thereby free its memory: there is nothing to do for now."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    async def break_off(self) -> None:
        """End the child process, and return when it has stopped writing."""
        worker = self._worker
        self.clear()
        if worker is not None:
            await self._runtime.in_thread(worker.join)
