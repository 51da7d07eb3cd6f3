"""Ctrl-C in a program with a Spark session: queries are stopped, and the program ends quietly.

PySpark's own handler asks the JVM to cancel jobs over the connection on which the main thread is
waiting for an answer, as in `query.awaitTermination()`. That cannot work, and Py4J logs three
tracebacks about it. Here another thread, with a connection of its own, stops the queries.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_TIMEOUT_S = 15.0
"""How long one Ctrl-C waits for batches to end; a second one does not wait."""

_ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


@contextmanager
def orderly_interrupts() -> Iterator[Callable[[SparkSession], None]]:
    """Wrap the creation of a session, then call the yielded function with the session.

    A program with a handler of its own keeps it. So does an interactive Python, where Ctrl-C is for
    the current command and not for queries in the background.
    """
    before = signal.getsignal(signal.SIGINT)
    is_ours = (
        (before is signal.default_int_handler or isinstance(before, Interrupt))
        and threading.current_thread() is threading.main_thread()
        and not is_interactive()
    )
    if is_ours:
        _silence_interrupts()

    def take_over(spark: SparkSession) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if is_ours:
            signal.signal(signal.SIGINT, Interrupt(spark))
        elif callable(before):
            signal.signal(signal.SIGINT, before)

    yield take_over


def is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


class Interrupt:
    """The handler: the first Ctrl-C stops all queries, the second does not wait for them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._stopper: threading.Thread | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._stopper is None or not self._stopper.is_alive():
            self._stopper = threading.Thread(target=self._stop, daemon=True)
            self._stopper.start()
            self._stopper.join(STOP_TIMEOUT_S)
        # A terminal sends Ctrl-C to the JVM as well: Py4J then finds its connections broken and
        # would log a traceback for each.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        raise KeyboardInterrupt

    def _stop(self) -> None:
        try:
            # The JVM's messages about interrupted batches are not useful.
            self._spark.sparkContext.setLogLevel("OFF")
            for query in self._spark.streams.active:
                query.stop()
            self._spark.sparkContext.cancelAllJobs()
        except Exception as error:  # the JVM may be gone already
            logging.getLogger("ottla.spark").debug("queries not stopped: %s", error)


def _silence_interrupts() -> None:
    """Print no traceback for an interrupt that nobody catches: the exit code shows it."""
    if _is_not_py4j_interrupt in logging.root.filters:
        return
    logging.root.addFilter(_is_not_py4j_interrupt)
    previous: _ExceptHook = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            previous(kind, error, trace)

    sys.excepthook = hook


def _is_not_py4j_interrupt(record: logging.LogRecord) -> bool:
    """False for Py4J's log line about an interrupt that it passes on."""
    return record.msg != "KeyboardInterrupt while sending command."
