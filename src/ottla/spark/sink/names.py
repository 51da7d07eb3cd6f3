"""What the sink calls its transactions, so that whose they are can be read from a list of all.

A task's transactional id names the application, the run of it, the turn's slot, the task and its
attempt. The same ids serve every second batch of a run, which keeps their number small; attempts,
and runs, have ids of their own, so that none ends the transaction of another by coming later.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from uuid import UUID

PREFIX = "ottla-sink-"
SLOTS = 2
"""With two, an open transaction of this turn cannot be taken for one of the next."""

_TASK = re.compile(r"ottla-sink-(.*)-([0-9a-f]{8})-([0-9])-([0-9]+)-([0-9]+)", re.DOTALL)


class TaskId(NamedTuple):
    """The transactional id of one attempt of a task."""

    app: str
    run: str
    slot: int
    task: int
    attempt: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.app}-{self.run}-{self.slot}-{self.task}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> TaskId | None:
        """None for what is not one. Read from the end, as an application may have any name."""
        found = _TASK.fullmatch(text)
        if found is None:
            return None
        app, run, slot, task, attempt = found.groups()
        return cls(app, run, int(slot), int(task), int(attempt))


def slot_of(turn: int) -> int:
    return turn % SLOTS


def driver_id(app: str) -> str:
    """Of the producer of decisions. No task's id ends like this."""
    return f"{PREFIX}{app}-driver"


def group_id(app: str) -> str:
    """Of the group whose offset is where the newest decision is."""
    return f"{PREFIX}{app}"


def short_run(run: str) -> str | None:
    """Eight digits of a run's UUID; None if it is none, and so perhaps not of one run alone."""
    try:
        return UUID(run).hex[:8]
    except ValueError:
        return None
