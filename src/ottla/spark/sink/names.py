"""Names of the sink's transactions, from which a list of all shows whose they are.

A task's transactional id contains the application, its run, the turn's slot, the task and its
attempt. Every second batch of a run uses the same ids, which keeps their number small. Attempts and
runs have ids of their own, so that a later one does not end the transaction of another.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from uuid import UUID

PREFIX = "ottla-sink-"
SLOTS = 2
"""With two slots, an open transaction of this turn is not mistaken for one of the next."""

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
        """Parse an id, or return None. It is read from the end: an application may have any
        name."""
        found = _TASK.fullmatch(text)
        if found is None:
            return None
        app, run, slot, task, attempt = found.groups()
        return cls(app, run, int(slot), int(task), int(attempt))


def slot_of(turn: int) -> int:
    return turn % SLOTS


def driver_id(app: str) -> str:
    """Return the transactional id of the producer of decisions. No task's id ends like this."""
    return f"{PREFIX}{app}-driver"


def group_id(app: str) -> str:
    """Return the group whose committed offset points to the newest decision."""
    return f"{PREFIX}{app}"


def short_run(run: str) -> str | None:
    """Return eight digits of a run's UUID; None if it is no UUID and so perhaps not unique."""
    try:
        return UUID(run).hex[:8]
    except ValueError:
        return None
