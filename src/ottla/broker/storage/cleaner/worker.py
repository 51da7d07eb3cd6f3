"""`python -m ottla.broker.storage.cleaner.worker`: compaction in a child process.

The broker starts it when there is something to compact and ends it when there is nothing left.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.storage.cleaner.compaction import attempt
from ottla.broker.storage.cleaner.job import CleaningJob, Outcome, Progress, RunLimits
from ottla.broker.storage.cleaner.pacing import Pacer
from ottla.runtime.clock import SystemClock
from ottla.runtime.os_disk import OsDisk
from ottla.runtime.worker import pause, serve

MODULE = "ottla.broker.storage.cleaner.worker"


def work(message: tuple[CleaningJob, RunLimits]) -> Iterator[Outcome]:
    job, limits = message
    clock, pacer = SystemClock(), Pacer(limits.bytes_per_second)
    for step in attempt(OsDisk(), job):
        if isinstance(step, Progress):
            delay_s = pacer.delay_s(step.byte_count, clock.now())
            if delay_s > 0:
                pause(delay_s)
        else:
            yield step


if __name__ == "__main__":
    serve(work)
