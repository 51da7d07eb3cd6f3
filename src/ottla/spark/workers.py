"""Prepares a Python worker of Spark for many short tasks.

After each task Spark lets Python collect garbage cycles among all objects. With pandas, pyarrow and
this package loaded those are 85,000, nearly all of them modules and classes that stay: this takes
40 ms per task, five times as long as reading 25,000 rows. Once frozen (`gc.freeze`), they are not
checked any more, and what tasks leave behind is found in less than 1 ms.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SETTLING_TASKS = 2
"""The second task may still import more than the first."""

_tasks_done = 0


def task_done() -> None:
    """Call this at the end of a task; it does nothing outside of Spark's workers."""
    global _tasks_done
    if _tasks_done < _SETTLING_TASKS and _is_worker():
        _tasks_done += 1
        gc.collect()
        gc.freeze()


def ends_task(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate the function that ends a task."""

    @functools.wraps(work)
    def worked(*arguments: P.args, **options: P.kwargs) -> T:
        result = work(*arguments, **options)
        task_done()
        return result

    return worked


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None
