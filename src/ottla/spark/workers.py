"""Making a Python worker of Spark ready for many short tasks.

After each task Spark has Python look through all objects for garbage in cycles. With pandas,
pyarrow and this package loaded those are 85,000, nearly all of them modules and classes that stay:
40 ms a task, five times what it takes to read 25,000 rows. Set aside once, they are not looked at
any more (`gc.freeze`), and what tasks leave behind is found in less than 1 ms.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SETTLING_TASKS = 2
"""The first task imports what the second may still add to."""

_tasks_done = 0


def task_done() -> None:
    """To be called at the end of a task; does nothing outside of Spark's workers."""
    global _tasks_done
    if _tasks_done < _SETTLING_TASKS and _is_worker():
        _tasks_done += 1
        gc.collect()
        gc.freeze()


def ends_task(work: Callable[P, T]) -> Callable[P, T]:
    """Of a function with which a task is done."""

    @functools.wraps(work)
    def worked(*arguments: P.args, **options: P.kwargs) -> T:
        result = work(*arguments, **options)
        task_done()
        return result

    return worked


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None
